"""Schedulers, blocks, policies and preemption, driven together at random against a toy model whose cache holds token ids."""

import hypothesis.strategies as st
from hypothesis import event, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minfer.params import SamplingParams
from minfer.resolve import resolve
from minfer.sample.noise import derive_seed
from minfer.testing.invariants import check_idle, check_scheduler
from minfer.testing.toy import ToyExecutor, expected, toy_config
from minfer.types import Request, Sampling, Sequence

SCHEDULERS = {
    "static": "minfer.scheduler.static:StaticScheduler",
    "continuous": "minfer.scheduler.continuous:ContinuousScheduler",
    "chunked": "minfer.scheduler.chunked:ChunkedScheduler",
}
BLOCKS = {
    "contiguous": "minfer.blocks.contiguous:ContiguousBlocks",
    "paged": "minfer.blocks.paged:PagedBlocks",
    "prefix": "minfer.blocks.prefix:PrefixBlocks",
}
PREEMPTIONS = {"recompute": "minfer.preemption.recompute:Recompute", "swap": "minfer.preemption.swap:Swap"}
POLICIES = ["fcfs", "priority", "shortest_prompt", "longest_prefix", "fair_share"]
VOCAB = 13  # small, so that stop tokens come up


class Traffic(RuleBasedStateMachine):
    """Add, step, abort and preempt in any order; every finished sequence must have exactly the tokens of a run on its own."""

    scheduler_name = "chunked"

    @initialize(
        data=st.data(),
        blocks=st.sampled_from(list(BLOCKS)),
        preemption=st.sampled_from(list(PREEMPTIONS)),
        policy=st.sampled_from(POLICIES),
        block_size=st.integers(1, 5),
        rows=st.integers(1, 5),
        budget=st.integers(1, 12),
    )
    def build(self, data, blocks, preemption, policy, block_size, rows, budget):
        self.max_len = 24
        self.config = toy_config(
            max_num_seqs=rows, max_num_batched_tokens=budget, max_model_len=self.max_len, block_size=block_size
        )
        part = resolve("blocks", BLOCKS[blocks])
        size = part.size_of_block(self.config)
        most = 8 if blocks == "contiguous" else -(-self.max_len // size) * 3
        num_blocks = 1 + data.draw(st.integers(1 if blocks == "contiguous" else max(-(-10 // size), 1), most), label="blocks")
        num_host = data.draw(st.integers(0, num_blocks), label="host blocks")
        self.blocks = part(num_blocks, size)
        self.pool_tokens = self.blocks.num_total * size
        self.scheduler = resolve("scheduler", SCHEDULERS[self.scheduler_name])(
            self.config,
            self.blocks,
            resolve("policy", f"minfer.policy.{policy}:policy"),
            resolve("preemption", PREEMPTIONS[preemption])(num_host),
        )
        self.executor = ToyExecutor(self.config, num_blocks, num_host, size, VOCAB)
        self.seqs: list[Sequence] = []
        self.idle_steps = 0

    @rule(
        prompt=st.lists(st.integers(0, 2), min_size=1, max_size=9),
        n=st.integers(1, 3),
        max_tokens=st.integers(1, 12),
        stop_ids=st.sampled_from([(), (3,), (1, 5)]),
        min_tokens=st.integers(0, 2),
        priority=st.integers(-1, 1),
        user=st.sampled_from("ab"),
    )
    def add(self, prompt, n, max_tokens, stop_ids, min_tokens, priority, user):
        limit = min(len(prompt) + max_tokens, self.max_len, self.pool_tokens)
        if len(prompt) >= limit:
            return  # the engine refuses it
        params = SamplingParams(n=n, max_tokens=max_tokens, min_tokens=min(min_tokens, max_tokens))
        request = Request(str(len(self.seqs)), tuple(prompt), params, stop_ids, 5, priority, user)
        group = []
        for index in range(n):
            sampling = Sampling(params, derive_seed(5, index), stop_ids, len(prompt))
            parent = group[0] if group else None
            group.append(Sequence(len(self.seqs), request, index, sampling, list(prompt), len(prompt), limit, parent))
            self.seqs.append(group[-1])
        for seq in group:
            self.scheduler.add(seq)

    @precondition(lambda self: self.scheduler.has_work())
    @rule(count=st.integers(1, 4))
    def step(self, count):
        for _ in range(count):
            if self.scheduler.has_work():
                self.one_step()

    def one_step(self):
        plan = self.scheduler.schedule()
        assert plan is not None, "work is left and nothing was planned"
        assert sum(work.num_new for work in plan.work) <= self.most_tokens(plan)
        sampled = self.executor.launch(plan).wait()
        for seq in self.scheduler.commit(plan, sampled):
            assert seq.output_ids == self.alone(seq)[: seq.num_output]
        for work in plan.work:
            assert not work.samples or work.start + work.num_new >= work.sampling.num_prompt, "sampled before the prompt's end"

    def most_tokens(self, plan) -> int:
        if self.scheduler_name == "chunked":
            return self.config.max_num_batched_tokens
        return self.config.max_num_seqs * self.max_len

    def alone(self, seq):
        return expected(list(seq.request.prompt_ids), seq.sampling, seq.limit, VOCAB)

    @precondition(lambda self: self.seqs)
    @rule(data=st.data())
    def abort(self, data):
        seq = data.draw(st.sampled_from(self.seqs))
        before = seq.finish_reason
        self.scheduler.abort(seq.seq_id)
        self.scheduler.abort(seq.seq_id)
        assert seq.finish_reason == (before or "abort")

    @precondition(lambda self: self.scheduler.running)
    @rule(data=st.data())
    def preempt(self, data):
        self.scheduler._preempt(data.draw(st.sampled_from(self.scheduler.running)))

    @invariant()
    def whole(self):
        if hasattr(self, "scheduler"):
            check_scheduler(self.scheduler)

    def teardown(self):
        if not hasattr(self, "scheduler"):
            return
        steps = 0
        while self.scheduler.has_work():
            self.one_step()
            steps += 1
            assert steps < 5000, "it does not come to an end"
        check_idle(self.scheduler)
        event(f"preempted: {self.scheduler.num_preemptions > 0}")
        for seq in self.seqs:
            assert seq.finished
            if seq.finish_reason != "abort":
                assert seq.output_ids == self.alone(seq)


def machine(name: str):
    cls = type(name, (Traffic,), {"scheduler_name": name})
    cls.TestCase.settings = settings(max_examples=200, stateful_step_count=60, deadline=None)
    return cls.TestCase


TestStatic = machine("static")
TestContinuous = machine("continuous")
TestChunked = machine("chunked")
