"""Counts and times of requests, and the numbers the workers leave in the store, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from chainmemory.engine.worker_numbers import Sample

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """One registry per app, so that several apps can live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "chainmemory_http_requests_total",
            "Requests answered",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "chainmemory_http_request_seconds",
            "Time from a request's arrival to its answer",
            ("method", "route"),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        # Looking a child up by its labels costs more than counting.
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answer. `route` is a template or "other", so that the number of series stays small."""
        place = (method, route, status)
        found = self._children.get(place)
        if found is None:
            found = self._children[place] = (
                self._requests.labels(method, route, str(status)),
                self._seconds.labels(method, route),
            )
        found[0].inc()
        found[1].observe(seconds)


class Samples(Collector):
    """Numbers read elsewhere, as they are at this moment."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._families: dict[str, Metric] = {}
        for name, words, labels, value, rises in samples:
            family = self._families.get(name)
            if family is None:
                kind = CounterMetricFamily if rises else GaugeMetricFamily
                family = self._families[name] = kind(name, words, labels=list(labels))
            family.add_metric(list(labels.values()), value)  # type: ignore[attr-defined]

    def collect(self) -> Iterator[Metric]:
        """Yield what was given, by name."""
        yield from self._families.values()
