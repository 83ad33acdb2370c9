"""What proctor's JSON is about, as dataclasses.

The names, fields and defaults are those of the reference implementation. All other keys of an
object are in `extra` (docs/fields.md, docs/contracts.md). Defaults are for objects that a program
makes. In one that was read, an unknown value is None, whether it was null or not there at all.

    SystemSnapshot.from_json(client.top())

A value of the wrong type is a BadData, which names its place. Values have no bounds: a GPU that
reports 101 % does not lose a snapshot.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import sys
import time
import typing
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple, Type, TypeVar, Union

from ._errors import BadData

M = TypeVar("M", bound="Model")
MAX_SHOWN = 40  # characters of a bad value

# ---- texts that are one of a few ----


class _Open(str, enum.Enum):
    """A value that this version does not know is a member all the same, of its own name."""

    @classmethod
    def _missing_(cls, value: object) -> Optional[_Open]:
        if not isinstance(value, str):
            return None
        member = str.__new__(cls, value)
        member._name_ = value.upper()
        member._value_ = value
        return member

    def __str__(self) -> str:
        return str(self.value)


class AnomalySeverity(_Open):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class AnomalyType(_Open):
    """The first four are the reference implementation's."""

    MEMORY_SPIKE = "memory_spike"
    RUNAWAY_PROCESS = "runaway_process"
    ZOMBIE = "zombie"
    FD_EXHAUSTION = "fd_exhaustion"
    MEMORY_LEAK = "memory_leak"
    MEMORY_PRESSURE = "memory_pressure"
    STUCK_PROCESS = "stuck_process"
    THREAD_EXPLOSION = "thread_explosion"
    PROCESS_EXPLOSION = "process_explosion"
    IO_STALL = "io_stall"
    SWAP_STORM = "swap_storm"
    OOM_KILL = "oom_kill"
    GPU_MEMORY = "gpu_memory"
    GPU_IDLE = "gpu_idle"
    GPU_HOT = "gpu_hot"
    GPU_LOST = "gpu_lost"
    ORPHAN = "orphan"
    RANK_DIVERGED = "rank_diverged"


class EventType(_Open):
    """ORPHAN is proctor's own."""

    SPAWN = "spawn"
    EXIT = "exit"
    SIGNAL = "signal"
    KILL = "kill"
    OOM = "oom"
    ORPHAN = "orphan"


# ---- from JSON ----


def _bad(where: str, wanted: str, value: Any) -> BadData:
    shown = repr(value)
    if len(shown) > MAX_SHOWN:
        shown = shown[:MAX_SHOWN] + "…"
    return BadData(f"{where}: this is no {wanted}: {shown}")


def _float(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _bad(where, "number", value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _bad(where, "finite number", value)
    return number


def _int(value: Any, where: str) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _bad(where, "whole number", value)
    return value


def _int_key(key: Any, where: str) -> int:
    try:
        return int(key)
    except (TypeError, ValueError):
        raise _bad(where, "whole number", key) from None


def _instance(kind: type, wanted: str) -> Callable[[Any, str], Any]:
    def read(value: Any, where: str) -> Any:
        if not isinstance(value, kind):
            raise _bad(where, wanted, value)
        return value

    return read


_SCALARS: Dict[Any, Callable[[Any, str], Any]] = {
    float: _float,
    int: _int,
    str: _instance(str, "text"),
    bool: _instance(bool, "true or false"),
    Any: lambda value, where: value,
}
_list = _instance(list, "list")
_dict = _instance(dict, "object")


def _is_optional(hint: Any) -> bool:
    return typing.get_origin(hint) is Union and type(None) in typing.get_args(hint)


def _read(hint: Any, value: Any, where: str) -> Any:
    """value as the type of a field has it."""
    arguments = typing.get_args(hint)
    if _is_optional(hint):
        return None if value is None else _read(arguments[0], value, where)
    if hint in _SCALARS:
        return _SCALARS[hint](value, where)
    origin = typing.get_origin(hint)
    if origin is list:
        items = enumerate(_list(value, where))
        return [_read(arguments[0], item, f"{where}[{i}]") for i, item in items]
    if origin is dict:
        keys = _int_key if arguments[0] is int else _SCALARS[str]
        pairs = _dict(value, where).items()
        return {keys(k, where): _read(arguments[1], v, f"{where}.{k}") for k, v in pairs}
    if issubclass(hint, Model):
        return hint.from_json(value, where)
    return hint(_SCALARS[str](value, where))  # an _Open


_hints: Dict[type, Dict[str, Any]] = {}


def _hints_of(kind: type) -> Dict[str, Any]:
    """Of each field but extra; to work them out takes as long as to read some hundred objects."""
    if kind not in _hints:
        hints = typing.get_type_hints(kind, vars(sys.modules[kind.__module__]))
        names = [f.name for f in dataclasses.fields(kind) if f.name != "extra"]
        _hints[kind] = {name: hints[name] for name in names}
    return _hints[kind]


class Model:
    """What all of them can do."""

    extra: Dict[str, Any]

    @classmethod
    def from_json(cls: Type[M], data: Any, where: str = "") -> M:
        """data: an object of parsed JSON, which stays as it is. where: what it is, for errors."""
        where = where or cls.__name__
        if not isinstance(data, Mapping):
            raise _bad(where, "object", data)
        hints = _hints_of(cls)
        values: Dict[str, Any] = {}
        for name, hint in hints.items():
            value = data.get(name)
            if value is None and not _is_optional(hint):
                raise BadData(f"{where}: there is no {name}")
            values[name] = None if value is None else _read(hint, value, f"{where}.{name}")
        values["extra"] = {key: value for key, value in data.items() if key not in hints}
        return cls(**values)

    def to_json(self) -> Dict[str, Any]:
        """What from_json() makes this of."""
        values = {name: _write(getattr(self, name)) for name in _hints_of(type(self))}
        return {**values, **self.extra}


def _write(value: Any) -> Any:
    if isinstance(value, Model):
        return value.to_json()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, list):
        return [_write(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _write(item) for key, item in value.items()}
    return value


def _object() -> Any:
    return field(default_factory=dict)


def _items() -> Any:
    return field(default_factory=list)


def _extra() -> Any:
    return field(default_factory=dict, repr=False)


# ---- what a host and its processes are doing ----


@dataclass
class ProcessMetric(Model):
    pid: int
    ppid: Optional[int] = 0
    command: Optional[str] = ""
    state: Optional[str] = "S"
    cpu_percent: Optional[float] = 0.0
    rss_mb: Optional[float] = 0.0
    vms_mb: Optional[float] = 0.0
    threads: Optional[int] = 1
    open_fds: Optional[int] = 0
    age_seconds: Optional[float] = 0.0
    job_id: Optional[str] = None
    sheet_num: Optional[int] = None
    syscall_counts: Optional[Dict[str, int]] = _object()
    syscall_time_pct: Optional[Dict[str, float]] = _object()
    extra: Dict[str, Any] = _extra()


@dataclass
class Sample(ProcessMetric):
    """A ProcessMetric of the record: with pid, start_ticks is one process of a boot."""

    timestamp: Optional[float] = None
    attempt: Optional[int] = None
    start_ticks: Optional[int] = None


@dataclass
class GpuMetric(Model):
    index: int
    utilization_pct: Optional[float] = 0.0
    memory_used_mb: Optional[float] = 0.0
    memory_total_mb: Optional[float] = 0.0
    temperature_c: Optional[float] = 0.0
    extra: Dict[str, Any] = _extra()


@dataclass
class JobProgress(Model):
    job_id: str
    total_sheets: Optional[int] = 1
    last_completed_sheet: Optional[int] = 0
    current_sheet: Optional[int] = None
    status: Optional[str] = "unknown"
    extra: Dict[str, Any] = _extra()


@dataclass
class SystemSnapshot(Model):
    timestamp: float = field(default_factory=time.time)
    daemon_pid: Optional[int] = 0
    system_memory_total_mb: Optional[float] = 0.0
    system_memory_available_mb: Optional[float] = 0.0
    system_memory_used_mb: Optional[float] = 0.0
    daemon_rss_mb: Optional[float] = 0.0
    load_avg_1: Optional[float] = 0.0
    load_avg_5: Optional[float] = 0.0
    load_avg_15: Optional[float] = 0.0
    processes: List[ProcessMetric] = field(default_factory=list)
    gpus: Optional[List[GpuMetric]] = _items()
    pressure_level: Optional[str] = "none"
    running_jobs: Optional[int] = 0
    active_sheets: Optional[int] = 0
    zombie_count: Optional[int] = 0
    zombie_pids: Optional[List[int]] = _items()
    job_progress: Optional[List[JobProgress]] = _items()
    conductor_uptime_seconds: Optional[float] = 0.0
    extra: Dict[str, Any] = _extra()


# ---- what happened ----


@dataclass
class ProcessEvent(Model):
    pid: int
    event_type: EventType
    timestamp: float = field(default_factory=time.time)
    exit_code: Optional[int] = None
    signal_num: Optional[int] = None
    job_id: Optional[str] = None
    sheet_num: Optional[int] = None
    details: Optional[str] = ""
    extra: Dict[str, Any] = _extra()


@dataclass
class Anomaly(Model):
    """An episode has its beginning and end, and an event about one a change: "began", …"""

    anomaly_type: AnomalyType
    timestamp: float = field(default_factory=time.time)
    pid: Optional[int] = None
    job_id: Optional[str] = None
    sheet_num: Optional[int] = None
    description: Optional[str] = ""
    severity: Optional[AnomalySeverity] = AnomalySeverity.MEDIUM
    metric_value: Optional[float] = 0.0
    threshold: Optional[float] = 0.0
    episode: Optional[str] = None
    attempt: Optional[int] = None
    began: Optional[float] = None
    ended: Optional[float] = None
    change: Optional[str] = None
    extra: Dict[str, Any] = _extra()


@dataclass
class JobEvent(Model):
    """Of a job, a sheet or a phase: "job.started", "sheet.failed", "phase.enter"."""

    event: str
    timestamp: Optional[float] = None
    job_id: Optional[str] = None
    attempt: Optional[int] = None
    sheet_num: Optional[int] = None
    outcome: Optional[str] = None
    exit_code: Optional[int] = None
    signal: Optional[int] = None
    reason: Optional[str] = None
    extra: Dict[str, Any] = _extra()


AnyEvent = Union[ProcessEvent, Anomaly, SystemSnapshot, JobEvent]


def parse_event(topic: str, data: Any) -> AnyEvent:
    """The data of an event of the daemon or of the record, by its topic."""
    if topic.startswith("process."):
        return ProcessEvent.from_json(data, topic)
    if topic == "monitor.anomaly":
        return Anomaly.from_json(data, topic)
    if topic == "snapshot":
        return SystemSnapshot.from_json(data, topic)
    if isinstance(data, Mapping):
        data = {**data, "event": topic}
    return JobEvent.from_json(data, topic)


# ---- what jobs used, and what they will need ----


@dataclass
class Attempt(Model):
    """One run of a job, of which all have the same job_id."""

    job_id: str
    attempt: Optional[int] = None
    status: Optional[str] = None
    outcome: Optional[str] = None
    exit_code: Optional[int] = None
    signal: Optional[int] = None
    started: Optional[float] = None
    ended: Optional[float] = None
    total_sheets: Optional[int] = None
    last_completed_sheet: Optional[int] = None
    current_sheet: Optional[int] = None
    wall_seconds: Optional[float] = None
    reason: Optional[str] = None
    extra: Dict[str, Any] = _extra()


@dataclass
class SheetMetrics(Model):
    peak_rss_mb: Optional[float] = 0.0
    max_cpu_pct: Optional[float] = 0.0
    extra: Dict[str, Any] = _extra()


@dataclass
class JobProfile(Model):
    """Of a report: peak_rss_mb is the largest sum over the tree at one moment."""

    job_id: str
    peak_rss_mb: Optional[float] = 0.0
    total_cpu_seconds: Optional[float] = 0.0
    process_spawn_count: Optional[int] = 0
    syscall_hotspots: Optional[Dict[str, float]] = _object()
    sheet_metrics: Optional[Dict[int, SheetMetrics]] = _object()
    unique_pid_count: Optional[int] = 0
    extra: Dict[str, Any] = _extra()

    @classmethod
    def of(
        cls, job_id: str, snapshots: Iterable[SystemSnapshot], events: Iterable[ProcessEvent] = ()
    ) -> JobProfile:
        """By the rules of the reference implementation: peaks are those of single processes, and
        CPU seconds stay 0."""
        peak, pids = 0.0, set()
        hotspots: Dict[str, float] = {}
        sheets: Dict[int, SheetMetrics] = {}
        for snapshot in snapshots:
            for process in snapshot.processes or []:
                if process.job_id != job_id:
                    continue
                rss_mb, cpu_percent = process.rss_mb or 0.0, process.cpu_percent or 0.0
                peak = max(peak, rss_mb)
                pids.add(process.pid)
                for name, percent in (process.syscall_time_pct or {}).items():
                    hotspots[name] = hotspots.get(name, 0.0) + percent
                if process.sheet_num is not None:
                    sheet = sheets.setdefault(process.sheet_num, SheetMetrics())
                    sheet.peak_rss_mb = max(sheet.peak_rss_mb or 0.0, rss_mb)
                    sheet.max_cpu_pct = max(sheet.max_cpu_pct or 0.0, cpu_percent)
        return cls(
            job_id=job_id,
            peak_rss_mb=peak,
            process_spawn_count=sum(
                event.job_id == job_id and event.event_type == EventType.SPAWN for event in events
            ),
            syscall_hotspots=hotspots,
            sheet_metrics=sheets,
            unique_pid_count=len(pids),
        )


@dataclass
class ResourceEstimate(Model):
    estimated_peak_memory_mb: Optional[float] = 0.0
    estimated_cpu_seconds: Optional[float] = 0.0
    confidence: Optional[float] = 0.0
    extra: Dict[str, Any] = _extra()


@dataclass
class Admission(Model):
    """answer: "admit", "delay" (for delay_seconds), "reject" (None: no wait helps)."""

    answer: str
    delay_seconds: Optional[float] = None
    pressure_level: Optional[str] = None
    reason: Optional[str] = None
    estimated_peak_memory_mb: Optional[float] = None
    headroom_mb: Optional[float] = None
    extra: Dict[str, Any] = _extra()


@dataclass
class Correlation(Model):
    """A result of the reference implementation's rules. confidence is a score, no probability."""

    type: str
    confidence: Optional[float] = None
    context_tags: Optional[List[str]] = None
    stored: Optional[bool] = None
    extra: Dict[str, Any] = _extra()


@dataclass
class RunFinding(Model):
    """A property of runs that fail, tested: grade is the strength of the evidence."""

    feature: Optional[str] = None
    grade: Optional[str] = None
    sentence: Optional[str] = None
    p_adjusted: Optional[float] = None
    runs: Optional[int] = None
    failures: Optional[int] = None
    extra: Dict[str, Any] = _extra()


@dataclass
class CorrelationResult(Model):
    compat: List[Correlation]
    findings: List[RunFinding]
    runs: Optional[int] = None
    extra: Dict[str, Any] = _extra()


__all__ = [
    "Admission",
    "Anomaly",
    "AnomalySeverity",
    "AnomalyType",
    "AnyEvent",
    "Attempt",
    "Correlation",
    "CorrelationResult",
    "EventType",
    "GpuMetric",
    "JobEvent",
    "JobProfile",
    "JobProgress",
    "Model",
    "ProcessEvent",
    "ProcessMetric",
    "ResourceEstimate",
    "RunFinding",
    "Sample",
    "SheetMetrics",
    "SystemSnapshot",
    "parse_event",
]
