// Every text on the page whose contrast with its background is under 4.5 (WCAG 2.2, 1.4.3).
() => {
  const parse = (colour) => (colour.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0.99) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    if (![...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    if (!box.height || style.visibility === "hidden") continue;
    const back = behind(element);
    const opacity = parseFloat(style.opacity);
    const front = parse(style.color).slice(0, 3).map((v, i) => v * opacity + back[i] * (1 - opacity));
    const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push(`${ratio.toFixed(2)} ${element.outerHTML.slice(0, 100)}`);
  }
  return poor;
};
