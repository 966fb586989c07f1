"""Does a text look like it holds a secret? For the environment, which holds topology only.

The known forms of keys and tokens, and the words that announce a password, are detect-secrets'. Three rules
are added for what it leaves to whole source files: a password in an address, a value assigned in prose, and
a word that looks random. Pure: nothing is read, written or asked; the detectors are built once.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, Protocol

# scheme://user:password@host, also with an empty user or signs that detect-secrets' detector stops at.
_PASSWORD_IN_URL: Final = re.compile(r"[a-zA-Z][\w+.-]{0,30}://[^\s/?#:@]{0,200}:([^\s/?#]{1,200})@")
# user:passw0rd@host without a scheme; not user@host:path, sha256 digests, or mailto:someone@host.
_PASSWORD_AT_HOST: Final = re.compile(r"(?<![\w/@.-])([\w.-]{1,64}):([^\s:/@]{1,100})@(?!sha\d)[\w.-]")
_NOT_A_USER: Final = frozenset({"mailto", "ssh", "scp", "sftp", "rsync", "sip", "sips", "xmpp", "acct"})
# The value is given after a word like "password" or "token": `=`, `:`, `:=`, `=>`, or as a flag's argument.
_ASSIGNMENT: Final = (
    r"(?P<flag>(?<!\S)--?[\w-]{{0,40}}?)?(?:{words})(?P<suffix>\w{{0,30}})[\]'\"`]{{0,2}}"
    r"(?P<separator>\s{{0,3}}(?::=|=>|[:=]{{1,3}})\s{{0,3}}|(?(flag)\s{{1,3}}|(?!)))"
    r"['\"`]?(?P<value>[^\s'\"`,;&]{{1,200}})(?P<more>\s+\w)?"
)
_MORE_WORDS: Final = (
    r"token",
    r"passphrase",
    r"(?<![a-z])pass",
    r"credentials?",
    r"access_?key",
    r"signature",
)
_BEARER: Final = re.compile(r"\b(?:bearer|basic|sshpass -p)\s{1,3}(?=\S*\d)[\w.~+/=-]{6,}", re.IGNORECASE)
_NEWER_TOKEN: Final = re.compile(r"\b(?:aic_|github_pat_|npm_|hf_|glsa_|dop_v1_|sk-[a-z]+-|AIza)[\w-]{20,}")
# What such a name ends in when it says where the secret is, or how it is handled, not what it is.
_ABOUT_A_SECRET: Final = re.compile(
    r"_?(?:file|path|dir|name|ref|refs|id|arn|store|manager|policy|rotation|auth|authentication|length|"
    r"expiry|ttl|age|type|source|provider|url|less)s?",
    re.IGNORECASE,
)
_REFERENCE: Final = re.compile(
    r"[$<{\[(%*/~.]|(?:vault|arn|env|file|ssm|sops|kms|op|secretsmanager|https?):|see\b", re.IGNORECASE
)
_HARMLESS: Final = re.compile(
    r"none|not?|yes|true|false|on|off|required|optional|disabled|enabled|prompt(?:ed)?|vault|env|unset|empty|"
    r"rotated|managed|external|never|always|keychain|ldap|sso|kms|agent",
    re.IGNORECASE,
)
_SPACES: Final = re.compile(r"\s+")
_FINGERPRINT: Final = re.compile(
    r"\b(?:sha\d{1,3}|md5):[\w+/=:-]+|\bcommit\s+[0-9a-f]{7,40}\b", re.IGNORECASE
)
_CONTRACT_ADDRESS: Final = re.compile(r"\b0x[0-9a-fA-F]{40}\b")
_ARN: Final = re.compile(r"\barn:\S+")
_LONG_WORD: Final = re.compile(r"[A-Za-z0-9_+=-]{20,}|(?<![\w/+])[A-Za-z0-9/+]{40}(?![\w/+=])")
_TURN: Final = re.compile(r"[a-z](?=[A-Z0-9])|[A-Z](?=[0-9])|[0-9](?=[A-Za-z])")
_RANDOM_TURNS: Final = ((32, 0.18), (20, 0.21))
"""From so many characters on, so many turns between letter case and digits per character.

Names have about 0.1 of them, random base62 about 0.45.
"""


class _Detector(Protocol):
    def analyze_string(self, string: str) -> object: ...


def looks_secret(text: str) -> bool:
    """Say whether a text looks like it holds a credential, key, token or password."""
    # Some of detect-secrets' patterns take cubic time on a run of spaces.
    text = _SPACES.sub(" ", text)
    plain = _CONTRACT_ADDRESS.sub(" ", _ARN.sub(" ", _FINGERPRINT.sub(" ", text)))
    return (
        _in_address(text)
        or _assigned(plain)
        or _NEWER_TOKEN.search(plain) is not None
        or any(_looks_random(word) for word in _LONG_WORD.findall(plain))
        or any(_finds(detector, text) for detector in _detectors())
    )


def _in_address(text: str) -> bool:
    if any(not _is_placeholder(match[1]) for match in _PASSWORD_IN_URL.finditer(text)):
        return True
    return any(
        match[1].lower() not in _NOT_A_USER and not match[2].isalpha() and not _is_placeholder(match[2])
        for match in _PASSWORD_AT_HOST.finditer(text)
    )


def _assigned(text: str) -> bool:
    for match in _assignments().finditer(text):
        value = match["value"].rstrip(".)]}")
        if _ABOUT_A_SECRET.fullmatch(match["suffix"]) or _is_placeholder(value):
            continue
        # "secrets: managed by Vault" is prose; "password: hunter2 for now" and "key=abc here" are not.
        prose = match["more"] and match["separator"].endswith(" ")
        if not (value.isalpha() and (prose or _HARMLESS.fullmatch(value))):
            return True
    return _BEARER.search(text) is not None


def _is_placeholder(value: str) -> bool:
    return _REFERENCE.match(value) is not None or not any(sign.isalnum() for sign in value)


def _looks_random(word: str) -> bool:
    # Lower-case names carry generated endings (pod-7d9f8b6c5d-x2x4z), so each of their parts is judged alone.
    mixed = any(sign.isupper() for sign in word) and any(sign.islower() for sign in word)
    parts = [word] if mixed else re.split(r"[_+=-]", word)
    return any(
        len(part) >= length
        and any(sign.isdigit() for sign in part)
        and len(_TURN.findall(part)) >= turns * len(part)
        for part in parts
        for length, turns in _RANDOM_TURNS
    )


def _finds(detector: _Detector, text: str) -> bool:
    return any(True for _ in detector.analyze_string(text))  # type: ignore[attr-defined]


@cache
def _assignments() -> re.Pattern[str]:
    from detect_secrets.plugins.keyword import DENYLIST

    return re.compile(_ASSIGNMENT.format(words="|".join([*DENYLIST, *_MORE_WORDS])), re.IGNORECASE)


@cache
def _detectors() -> tuple[_Detector, ...]:
    # Imported at the first use: it takes half a second, which most processes never need to spend.
    from detect_secrets.plugins import (
        aws,
        azure_storage_key,
        cloudant,
        discord,
        github_token,
        gitlab_token,
        ibm_cloud_iam,
        ibm_cos_hmac,
        jwt,
        mailchimp,
        npm,
        openai,
        private_key,
        pypi_token,
        sendgrid,
        slack,
        softlayer,
        square_oauth,
        stripe,
        telegram_token,
        twilio,
    )

    # Left out: public addresses (they are topology), Artifactory (its form fits names like APEXDATABASE), and
    # the entropy and keyword detectors, which only look at quoted strings; the rules above stand in for them.
    return (
        aws.AWSKeyDetector(),
        azure_storage_key.AzureStorageKeyDetector(),
        cloudant.CloudantDetector(),
        discord.DiscordBotTokenDetector(),
        github_token.GitHubTokenDetector(),
        gitlab_token.GitLabTokenDetector(),
        ibm_cloud_iam.IbmCloudIamDetector(),
        ibm_cos_hmac.IbmCosHmacDetector(),
        jwt.JwtTokenDetector(),
        mailchimp.MailchimpDetector(),
        npm.NpmDetector(),
        openai.OpenAIDetector(),
        private_key.PrivateKeyDetector(),
        pypi_token.PypiTokenDetector(),
        sendgrid.SendGridDetector(),
        slack.SlackDetector(),
        softlayer.SoftlayerDetector(),
        square_oauth.SquareOAuthDetector(),
        stripe.StripeDetector(),
        telegram_token.TelegramBotTokenDetector(),
        twilio.TwilioKeyDetector(),
    )
