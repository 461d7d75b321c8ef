"""Whatever stands in a file, its reader returns a value or raises an error of ours: it never crashes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.support.readers import CORPUS, READERS, attempt, seed, template

HARD: list[JsonValue] = (
    [
        "", "\x00", "\u2028", "\ufeff", "../../etc/passwd", "${KEY}", "9" * 400, "x" * 5_000,
        0, -1, 2**63, 2**64, 1e308, True, None, [], {}, [[]], "2026-01-01", "2026-01-01T00:00:00",
        "9999-12-31T23:59:59.999999+23:59", "NaN", {"env": "KEY"}, "attempt-0", "normal",
    ]
)  # fmt: skip
JSON = st.sampled_from(HARD) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
WHOLE = [
    b"", b"{", b"null", b"[]", b"{}", b"\xff\xfe", b"\x00" * 64, b'{"a": NaN}', b'{"a":1,"a":2}',
    b'{"a":"\\ud800"}', b"[" * 100_000, b'{"a":' * 5_000 + b"1" + b"}" * 5_000, b"1" * 5_000,
    b'"\\udc00"', b"\xed\xb0\x80", b'{"schema_version":"agentcompass.attempt_result.v999"}',
    b'{"schema_version":"agentcompass.run_info.v3"}', b"&a [*a]", b"? {a: b}\n: c", b"!!python/name:os",
]  # fmt: skip


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return template(tmp_path_factory.mktemp("readers"))


@pytest.fixture(autouse=True)
def _as_it_was(run_dir: Path, tmp_path: Path) -> Iterator[None]:
    copy = tmp_path / "copy"
    shutil.copytree(run_dir, copy)
    yield
    shutil.rmtree(run_dir)
    shutil.copytree(copy, run_dir)


def bounded(examples: int) -> settings:
    checks = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(max_examples=examples, deadline=None, suppress_health_check=checks)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("data", WHOLE, ids=range(len(WHOLE)))
def test_a_file_that_is_nothing_is_refused(name: str, data: bytes, run_dir: Path) -> None:
    attempt(READERS[name], run_dir, data)


@pytest.mark.parametrize("name", READERS)
def test_a_file_that_is_cut_or_flipped_is_read_or_refused(name: str, run_dir: Path) -> None:
    good = seed(name, run_dir)

    @bounded(40)
    @given(st.integers(0, len(good)), st.binary(max_size=6), st.integers(0, 40))
    def read(at: int, put: bytes, dropped: int) -> None:
        attempt(READERS[name], run_dir, good[:at] + put + good[at + dropped :])
        attempt(READERS[name], run_dir, good[:at])

    read()


def mutated(value: JsonValue, at: int, put: JsonValue) -> tuple[JsonValue, int]:
    """Return the value with its `at`-th member (in depth-first order) replaced."""
    if at == 0:
        return put, -1
    at -= 1
    if isinstance(value, list):
        members: list[JsonValue] = []
        for each in value:
            new, at = mutated(each, at, put) if at >= 0 else (each, at)
            members.append(new)
        return members, at
    if isinstance(value, dict):
        fields: dict[str, JsonValue] = {}
        for name, each in value.items():
            fields[name], at = mutated(each, at, put) if at >= 0 else (each, at)
        return fields, at
    return value, at


def members_of(value: JsonValue) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return sum(1 + members_of(each) for each in inner)


RECORDS = (
    "result",
    "outcome",
    "head",
    "check",
    "checkpoint",
    "mark",
    "run_info",
    "scan",
    "foreign",
    "legs",
    "foreign_task",
    "foreign_result",
    "oldest_detail",
    "launch",
    "chat_reply",
    "responses_reply",
    "anthropic_reply",
)


@pytest.mark.parametrize("name", sorted(set(RECORDS) - {"check", "scan"}))
def test_a_record_with_each_member_replaced_by_each_hard_value(name: str, run_dir: Path) -> None:
    good = json.loads(seed(name, run_dir))

    for at in range(1, members_of(good) + 1):
        for put in HARD:
            record, _ = mutated(good, at, put)
            attempt(READERS[name], run_dir, json.dumps(record).encode())


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_with_any_member_replaced_is_read_or_refused(name: str, run_dir: Path) -> None:
    good = json.loads(seed(name, run_dir))

    @bounded(60)
    @given(st.integers(1, members_of(good)), JSON)
    def read(at: int, put: JsonValue) -> None:
        record, _ = mutated(good, at, put)
        data = json.dumps(record, separators=(",", ":"), ensure_ascii=False)
        attempt(READERS[name], run_dir, data.encode("utf-8", "surrogatepass"))

    read()


@pytest.mark.parametrize(
    "path", sorted(CORPUS.glob("*/*")), ids=lambda path: f"{path.parent.name}-{path.name}"
)
def test_what_once_crashed_a_reader_does_not_any_more(path: Path, run_dir: Path) -> None:
    attempt(READERS[path.parent.name], run_dir, path.read_bytes())
