"""Two watchdogs in a hostile world: messages and workers get lost, brokers forget, looks are late.

The world plays the workers and the broker; the watchdogs only ever see looks. Whatever happened,
once the world is kind again the run comes to its end.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from agentcompass.coordinator.ports import AttemptKey, Holdings
from agentcompass.coordinator.watching.decide import (
    Command,
    Finalize,
    Finished,
    Look,
    Resend,
    Stopped,
    Watchdog,
    WatchPolicy,
)

POLICY = WatchPolicy(lease_s=30, look_every_s=60, resend_limit_s=120, finalize_after_s=10)
KEYS: list[AttemptKey] = [(offset, attempt) for attempt in (1, 2) for offset in (0, 100, 200)]


class HostileWorld(RuleBasedStateMachine):
    @initialize(planned=st.integers(0, len(KEYS)))
    def begin(self, planned: int) -> None:
        self.planned = KEYS[:planned]
        self.now = 0.0
        self.is_open = True
        self.is_reachable = True
        self.is_known = True
        self.unknown_since: dict[int, float] = {}  # watchdog -> when it first saw the amnesia
        self.queued = list(self.planned)
        self.leases: dict[AttemptKey, bool] = {}  # attempt -> its holder lives
        self.results: set[AttemptKey] = set()
        self.reported: frozenset[AttemptKey] | None = None
        self.dogs = [Watchdog(POLICY), Watchdog(POLICY)]

    def unfinished(self) -> list[AttemptKey]:
        return [key for key in self.planned if key not in self.results]

    def holdings(self) -> Holdings | None:
        if not self.is_reachable:
            return None
        return Holdings(
            known=self.is_known,
            leased=frozenset(self.leases),
            queued=frozenset(self.queued),
        )

    def look(self, dog: int) -> list[Command]:
        holdings = self.holdings()
        if holdings is not None and holdings.known:
            self.unknown_since.pop(dog, None)
        elif holdings is not None:
            self.unknown_since.setdefault(dog, self.now)
        is_final = self.reported == frozenset(self.results)
        seen = Look(self.now, self.is_open, self.unfinished(), is_final, holdings)
        commands = self.dogs[dog].handle(seen)
        for command in commands:
            self.obey(dog, command, holdings)
        return commands

    def obey(self, dog: int, command: Command, holdings: Holdings | None) -> None:
        match command:
            case Resend(keys):
                assert self.is_open, "acted for a closed leg"
                assert holdings is not None, "an unreachable broker proves nothing"
                assert not self.results & set(keys), "sent what is finished"
                assert not holdings.all & set(keys), "sent what somebody takes care of"
                waited = self.now - self.unknown_since.get(dog, -POLICY.lease_s)
                assert waited >= POLICY.lease_s, "gave live holders no time to claim again"
                self.queued.extend(keys)
                self.is_known = True
            case Finalize():
                assert not self.unfinished(), "made a report of a run that is not over"
                self.reported = frozenset(self.results)
            case Finished():
                assert self.reported == frozenset(self.results) >= set(self.planned)
            case Stopped():
                assert not self.is_open
                assert holdings is not None
                assert not holdings.leased, "left while something executed"
            case _:
                raise AssertionError(f"nobody asked for {command}")

    @rule(dog=st.integers(0, 1), later_s=st.sampled_from([0.0, 5.0, 31.0, 60.0, 600.0]))
    def a_watchdog_looks(self, dog: int, later_s: float) -> None:
        self.now += later_s
        self.look(dog)

    @precondition(lambda self: self.queued)
    @rule(data=st.data())
    def a_worker_takes_a_message(self, data: st.DataObject) -> None:
        key = self.queued.pop(data.draw(st.integers(0, len(self.queued) - 1)))
        if key not in self.results and key not in self.leases:
            self.leases[key] = True

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def a_worker_publishes(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.leases)))
        self.results.add(key)
        del self.leases[key]

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), message_returns=st.booleans())
    def a_worker_dies_and_its_lease_ends(
        self, data: st.DataObject, *, message_returns: bool
    ) -> None:
        key = data.draw(st.sampled_from(sorted(self.leases)))
        del self.leases[key]
        if message_returns:
            self.queued.append(key)

    @precondition(lambda self: self.queued)
    @rule(data=st.data())
    def a_message_is_lost(self, data: st.DataObject) -> None:
        self.queued.remove(data.draw(st.sampled_from(self.queued)))

    @precondition(lambda self: self.queued)
    @rule(data=st.data())
    def a_message_is_doubled(self, data: st.DataObject) -> None:
        self.queued.append(data.draw(st.sampled_from(self.queued)))

    @rule()
    def the_broker_forgets_everything(self) -> None:
        self.queued.clear()
        self.is_known = False
        self.leases.clear()  # live holders go on, and claim again or publish

    @rule(is_reachable=st.booleans())
    def the_network_changes_its_mind(self, *, is_reachable: bool) -> None:
        self.is_reachable = is_reachable

    @rule(is_open=st.booleans())
    def somebody_pauses_or_resumes(self, *, is_open: bool) -> None:
        self.is_open = is_open

    @precondition(lambda self: not self.unfinished())
    @rule()
    def the_callback_fires(self) -> None:
        self.reported = frozenset(self.results)

    @invariant()
    def nothing_is_reported_that_is_not_there(self) -> None:
        assert self.reported is None or self.reported <= self.results

    def teardown(self) -> None:
        """Once the world is kind, every run ends: what is lost is found, what is over is reported."""
        if not hasattr(self, "dogs"):
            return
        self.is_open = self.is_reachable = True
        for _ in range(12):
            while self.queued:
                key = self.queued.pop()
                self.results.add(key)
            self.results.update(self.leases)
            self.leases.clear()
            self.now += 121.0
            if self.look(0) == [Finished()]:
                return
        raise AssertionError(f"never ends; unfinished: {self.unfinished()}")


TestWatchdogs = HostileWorld.TestCase
