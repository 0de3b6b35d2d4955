"""The engine's side of the server: one thread that does nothing but take commands, step, and report.

From: commands that come through a pipe. To: Reports, one for a step, through the same pipe. `run.py` gives it a process of its own, so
that it shares no interpreter lock with the event loop; in tests and notebooks it is a thread (`start_thread`).

Nothing that happens outside keeps the engine waiting. A report is made only when the pipe has room for it: until then what is new
stays with the requests, and comes in fewer, larger deltas.
"""

from __future__ import annotations

import logging
import queue
import select
import threading
from multiprocessing.connection import Connection

from minfer.engine import Engine
from minfer.errors import MinferError
from minfer.serve.live import Live
from minfer.serve.messages import Abort, Look, Report, State, Stop, Submit, Update
from minfer.text.processor import RequestState

log = logging.getLogger(__name__)

ROOM_WITHIN = 20  # ms between two questions whether the pipe has room, while there is nothing else to do


class Worker:
    """Runs an engine until it is told to stop, or the other side has gone."""

    def __init__(self, engine: Engine, pipe: Connection):
        self.engine, self.pipe = engine, pipe
        self.live = Live(engine)
        self.inbox: queue.SimpleQueue = queue.SimpleQueue()
        self.alive: set[str] = set()  # requests that have not ended
        self.changed: dict[str, RequestState] = {}  # what the other side has not been told of yet
        self.told_prompt: set[str] = set()  # requests whose prompt_logprobs it has
        self.errors: list[Update] = []
        self.asked = False  # for the state
        self.news = False  # the load is another one than the last report said
        self.stopped = False
        self._writable = select.poll()
        self._writable.register(pipe.fileno(), select.POLLOUT)

    def run(self) -> None:
        """Take commands, step, report; until Stop."""
        threading.Thread(target=self._receive, name="minfer-commands", daemon=True).start()
        while True:
            self._obey()
            if self.stopped:
                break
            self._step()
            self._report()
        self.engine.abort_all()
        self.live.stop()

    def _receive(self) -> None:
        """In a thread of its own, so that whoever sends never waits for a step to end."""
        try:
            while True:
                self.inbox.put(self.pipe.recv())
        except (EOFError, OSError):
            self.inbox.put(Stop())

    def _obey(self) -> None:
        """Carry out all commands that have come; wait for one if there is nothing else to do."""
        wait = not (self.engine.has_unfinished() or self._has_news())
        try:
            while not self.stopped:
                command = self.inbox.get(block=wait)
                wait = False
                self._carry_out(command)
        except queue.Empty:
            pass

    def _carry_out(self, command) -> None:
        if isinstance(command, Submit):
            self._add(command)
        elif isinstance(command, Abort):
            self.engine.abort(str(command.key))
            self._forget(str(command.key))
            self.news = True
        elif isinstance(command, Look):
            self.asked = True
        else:
            self.stopped = True

    def _add(self, command: Submit) -> None:
        key, prompt_ids, params, stream, priority, user = command
        try:
            self.engine.add_request(str(key), prompt_ids, params, priority=priority, user=user, stream=stream)
            self.alive.add(str(key))
        except Exception as error:  # of a policy, for example
            status = 400 if isinstance(error, MinferError) else 500
            log.log(logging.INFO if status == 400 else logging.ERROR, "request %d was not taken", key, exc_info=status == 500)
            self.errors.append(Update(key, [], error=(status, f"the request was not taken: {error}")))

    def _step(self) -> None:
        """An error in a step ends every request; the engine goes on with those that come after."""
        try:
            for state in self.engine.advance():
                self.changed[state.request.request_id] = state
                if state.finished:
                    self.alive.discard(state.request.request_id)
        except Exception as error:
            log.exception("a step failed; every request ends")
            ended = self.alive.copy()
            for name in ended:
                self._forget(name)
            text = f"the engine failed while it worked on this request, and ended it ({type(error).__name__}); it goes on with new ones"
            self.errors += [Update(int(name), [], error=(500, text)) for name in ended]

    def _has_news(self) -> bool:
        return bool(self.changed or self.errors or self.asked or self.news)

    def _report(self) -> None:
        """Tell what is new, if the pipe has room. With nothing to compute, wait a little for room."""
        if not self._has_news() or not self._writable.poll(0 if self.engine.has_unfinished() else ROOM_WITHIN):
            return
        updates = [self._update(name, state) for name, state in self.changed.items()]
        self.changed.clear()
        try:
            self.pipe.send(Report([*updates, *self.errors], self.live.load()))
            if self.asked:
                self.pipe.send(State(self.live.look()))
        except OSError:
            self.stopped = True  # nobody is there any more
        self.errors, self.asked, self.news = [], False, False

    def _update(self, name: str, state: RequestState) -> Update:
        metrics = state.metrics() if state.finished else None
        if not state.stream:
            return Update(int(name), [], output=state.output(), metrics=metrics)
        prompt = None
        if state.request.params.prompt_logprobs is not None and name not in self.told_prompt:
            self.told_prompt.add(name)
            prompt = state.prompt_logprobs()
        if state.finished:
            self.told_prompt.discard(name)
        return Update(int(name), state.deltas(), metrics=metrics, prompt_logprobs=prompt)

    def _forget(self, name: str) -> None:
        self.alive.discard(name)
        self.changed.pop(name, None)
        self.told_prompt.discard(name)
