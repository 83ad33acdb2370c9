"""The cross-rank analysis: which rank's memory rose first. docs/ranks.md describes the answer.

    analysis = proctor.ranks.analyze(records)
    if analysis.finding.verdict == "named":
        print(analysis.finding.rank, analysis.finding.probability, analysis.finding.reason)

A record is telemetry of version 2: a dict, a dataclass with these fields, or an object with
to_dict() or model_dump(). Records go to "proctor ranks" through a pipe; no file is written, and no
daemon is needed. BadInput lists the invalid ones.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from ._errors import BadAnswer, BadData
from ._program import Program, encode_lines
from ._wire import parse
from .models import Model, _extra

NAME = "proctor ranks"
SUMMARY_KEYS = (
    "job_id",
    "world_size",
    "participating_ranks",
    "missing_ranks",
    "rank_sample_counts",
    "alignment_offsets_ns",
    "cluster_onset_timestamp_ns",
    "first_cause_suspects",
    "notes",
)


@dataclass
class RankTimelinePoint(Model):
    rank: int
    timestamp_ns: int
    aligned_timestamp_ns: int
    device_used_bytes: int
    allocator_reserved_bytes: int
    allocator_allocated_bytes: int
    allocator_change_bytes: int
    extra: Dict[str, Any] = _extra()


@dataclass
class CrossRankMergeResult(Model):
    """merged_points: None where they were not asked for, as analyze() does not."""

    job_id: Optional[str]
    world_size: int
    participating_ranks: List[int]
    missing_ranks: List[int]
    rank_sample_counts: Dict[int, int]
    alignment_offsets_ns: Dict[int, int]
    merged_points: Optional[List[RankTimelinePoint]] = None
    notes: List[str] = field(default_factory=list)
    extra: Dict[str, Any] = _extra()


@dataclass
class FirstCauseSuspect(Model):
    rank: int
    first_spike_timestamp_ns: int
    aligned_first_spike_timestamp_ns: int
    peak_delta_bytes: int
    spike_window_samples: int
    lead_over_cluster_onset_ns: int
    confidence: str
    evidence: Dict[str, Any]
    phase_attribution: Optional[Dict[str, Any]] = None
    extra: Dict[str, Any] = _extra()


@dataclass
class FirstCauseAnalysisResult(Model):
    """The reference implementation's answer. Do not rely on its confidence: see Finding."""

    cluster_onset_timestamp_ns: Optional[int]
    suspects: List[FirstCauseSuspect]
    notes: List[str] = field(default_factory=list)
    extra: Dict[str, Any] = _extra()


@dataclass
class Finding(Model):
    """The answer to rely on: verdict is "named", "none" or "cannot_tell"."""

    verdict: str
    reason: str
    kind: Optional[str] = None
    rank: Optional[int] = None
    probability: Optional[float] = None
    onset_ns: Optional[int] = None
    onset_interval_ns: Optional[List[int]] = None
    lead_ns: Optional[int] = None
    lead_clock: Optional[str] = None
    phase_attribution: Optional[Dict[str, Any]] = None
    candidates: Optional[List[Dict[str, Any]]] = None
    reason_code: Optional[str] = None
    settled_by: Optional[str] = None
    has_passed: Optional[bool] = None
    extra: Dict[str, Any] = _extra()


@dataclass
class Analysis:
    finding: Finding
    merge: CrossRankMergeResult
    first_cause: FirstCauseAnalysisResult
    raw: Dict[str, Any]  # all that "proctor ranks analyze --json" prints

    def summary(self) -> Dict[str, Any]:
        """The reference implementation's, with its keys and no others."""
        return {key: self.raw[key] for key in SUMMARY_KEYS}


# ---- to the program and back ----


def _record(record: Any) -> Mapping[str, Any]:
    for name in ("to_dict", "model_dump"):
        if callable(getattr(record, name, None)):
            record = getattr(record, name)()
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        record = dataclasses.asdict(record)
    if not isinstance(record, Mapping):
        raise BadData(f"this is no telemetry record: {str(record)[:40]!r}")
    return dict(record)


def _encode(records: Iterable[Any]) -> bytes:
    try:
        return encode_lines(map(_record, records))
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(error, BadData):
            raise
        raise BadData(f"a telemetry record is no JSON: {error}") from None


def _options(clock_error_ms: Optional[float], skip_invalid: bool) -> List[str]:
    options = [] if clock_error_ms is None else [f"--clock-error={clock_error_ms:g}"]
    return options + (["--skip-invalid"] if skip_invalid else [])


def _analysis(out: bytes) -> Analysis:
    raw = parse(out, NAME)
    if not isinstance(raw, dict):
        raise BadAnswer(f"{NAME} printed no object")
    missing = [key for key in (*SUMMARY_KEYS, "finding") if key not in raw]
    if missing:
        raise BadAnswer(f"{NAME} printed no {missing[0]}")
    merge_keys = [f.name for f in dataclasses.fields(CrossRankMergeResult) if f.name in raw]
    return Analysis(
        Finding.from_json(raw["finding"]),
        CrossRankMergeResult.from_json({key: raw[key] for key in merge_keys}),
        FirstCauseAnalysisResult.from_json(
            {
                "cluster_onset_timestamp_ns": raw["cluster_onset_timestamp_ns"],
                "suspects": raw["first_cause_suspects"],
                "notes": raw["notes"],
            }
        ),
        raw,
    )


def _points(out: bytes) -> List[RankTimelinePoint]:
    return [RankTimelinePoint.from_json(parse(line, NAME)) for line in out.splitlines()]


def _analyze(text: bytes, options: List[str], program: Optional[Program]) -> Analysis:
    words = ["ranks", "analyze", "--json", *options, "-"]
    return _analysis((program or Program()).run(words, text))


def _merge(text: bytes, options: List[str], program: Optional[Program]) -> Analysis:
    analysis = _analyze(text, options, program)
    analysis.merge.merged_points = []
    if analysis.merge.participating_ranks:
        out = (program or Program()).run(["ranks", "merge", *options, "-"], text)
        analysis.merge.merged_points = _points(out)
    return analysis


# ---- what it offers ----


def analyze(
    records: Iterable[Any],
    clock_error_ms: Optional[float] = None,
    skip_invalid: bool = False,
    program: Optional[Program] = None,
) -> Analysis:
    """clock_error_ms: how far clocks may be off whose hosts give no bound; None: 10.
    skip_invalid: goes on without invalid records."""
    return _analyze(_encode(records), _options(clock_error_ms, skip_invalid), program)


async def analyze_async(
    records: Iterable[Any],
    clock_error_ms: Optional[float] = None,
    skip_invalid: bool = False,
    program: Optional[Program] = None,
) -> Analysis:
    options = _options(clock_error_ms, skip_invalid)
    words = ["ranks", "analyze", "--json", *options, "-"]
    return _analysis(await (program or Program()).run_async(words, _encode(records)))


def analyze_job(
    job_id: str, attempt: Optional[int] = None, program: Optional[Program] = None
) -> Analysis:
    """Of a job that proctor watched."""
    words = ["ranks", "analyze", "--json", f"--job={job_id}"]
    if attempt is not None:
        words.append(f"--attempt={attempt}")
    return _analysis((program or Program()).run(words))


# ---- under the names of the reference implementation ----


def analyze_cross_rank_events(
    events: Iterable[Any], program: Optional[Program] = None
) -> Tuple[CrossRankMergeResult, FirstCauseAnalysisResult]:
    analysis = _merge(_encode(events), [], program)
    return analysis.merge, analysis.first_cause


def merge_cross_rank_timelines(
    events: Iterable[Any], program: Optional[Program] = None
) -> CrossRankMergeResult:
    return _merge(_encode(events), [], program).merge


def summarize_cross_rank_analysis(
    events: Iterable[Any], program: Optional[Program] = None
) -> Dict[str, Any]:
    return analyze(events, program=program).summary()


__all__ = [
    "Analysis",
    "CrossRankMergeResult",
    "Finding",
    "FirstCauseAnalysisResult",
    "FirstCauseSuspect",
    "RankTimelinePoint",
    "analyze",
    "analyze_async",
    "analyze_cross_rank_events",
    "analyze_job",
    "merge_cross_rank_timelines",
    "summarize_cross_rank_analysis",
]
