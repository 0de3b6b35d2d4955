"""An engine's life: made and closed again and again, and busy for long, without leaving anything behind."""

import gc
import weakref

import pytest
from engine_fixtures import CPU, checkpoint, greedy

from minfer import LLM, SamplingParams
from minfer.errors import MinferError
from minfer.testing.checkpoints import make_checkpoint
from minfer.testing.invariants import check_idle


def test_five_lives():
    """Make, use, delete: the model is gone each time; closing twice is fine, and after it requests are refused."""
    for way in ("del", "del", "close", "with", "interrupted"):
        llm = LLM(str(checkpoint()), stage=CPU, max_model_len=128, num_kv_blocks=40)
        executor = llm.engine.executor
        model, cache = weakref.ref(executor.model), weakref.ref(executor.cache)
        if way == "with":
            with llm:
                llm.generate("hello", greedy(4))
        elif way == "interrupted":
            next(llm.stream("hello", greedy(4)))
        else:
            llm.generate("hello", greedy(4))
        if way in ("close", "with"):
            llm.close()
            llm.close()
            assert not llm.has_unfinished()
            with pytest.raises(MinferError, match="closed"):
                llm.generate("hello", greedy(4))
        else:
            del llm, executor
        gc.collect()
        assert model() is None
        assert cache() is None


def test_two_thousand_prompts(tmp_path):
    """Many short prompts: every output is right, memory is whole, and nothing of the requests stays behind."""
    path = make_checkpoint(tmp_path, num_hidden_layers=1, hidden_size=16, intermediate_size=16, num_attention_heads=2)
    llm = LLM(str(path), stage=CPU, max_model_len=32, num_kv_blocks=100, max_num_batched_tokens=256)
    texts = [[3 + i % 300, 3 + i // 300, 4] for i in range(2000)]
    outputs = llm.generate(texts, SamplingParams(max_tokens=3, ignore_eos=True))
    assert [output.prompt_token_ids for output in outputs] == texts
    assert all(len(output.outputs[0].token_ids) == 3 for output in outputs)
    check_idle(llm.engine.scheduler)
    assert llm.stats().num_free_blocks == llm.stats().num_total_blocks == 100
    for per_request in (llm.engine._requests, llm._kept, llm._awaited, llm.engine.blocks._chains):
        assert not per_request
    assert len(llm.engine.scheduler.waiting._heap) <= 1
