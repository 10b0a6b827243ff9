"""A small environment and small policies for the tests of the pipeline's parts."""

import os
from pathlib import Path

import corridor
import pytest

from envs import Task
from progpo import artifacts
from progpo.policy.checkpoint import Policy, create_scratch, save_files
from progpo.settings.base import validate
from progpo.settings.experiment import TasksStage
from progpo.settings.stages import PolicySettings
from progpo.stages import tasks as tasks_stage

# Before torch is imported: on matrices this small, more threads wait for each other longer than they compute.
os.environ.setdefault("OMP_NUM_THREADS", "1")

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SIZES = {"hidden_size": 32, "layers": 2, "heads": 2, "intermediate_size": 64}


@pytest.fixture(scope="session")
def tasks() -> list[Task]:
    """Tasks of the corridor, of both types and both splits."""
    return corridor.prepare(corridor.TaskSettings(), Path())


@pytest.fixture(scope="session")
def scratch(tasks: list[Task]) -> Policy:
    """A tiny policy made from scratch, untrained, that reads the corridor's texts."""
    return create_scratch(PolicySettings(max_context_tokens=512, **SIZES), corridor.texts(tasks), seed=3)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, scratch: Policy) -> Path:
    """A folder with a task list and a policy as stages leave them; tests that change it take a copy."""
    folder = tmp_path_factory.mktemp("made")
    tasks_stage.run(validate(TasksStage, {"environment": "corridor", "tasks": {}}, "test"), folder / "tasks")
    with artifacts.atomic_folder(folder / "policy") as place:
        save_files(scratch, place)
        # As in the folder of an updated policy.
        (place / "optimizer.safetensors").write_bytes(b"no weights")
        artifacts.write_manifest(place, "warmup", {}, list(place.iterdir()), at=folder / "policy")
    return folder


@pytest.fixture(scope="session")
def pretrained(tmp_path_factory: pytest.TempPathFactory, tasks: list[Task]) -> Path:
    """The folder of a tiny random chat checkpoint, as it might be downloaded."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    folder = tmp_path_factory.mktemp("pretrained")
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(
        corridor.texts(tasks),
        trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False),
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    tokenizer.add_special_tokens({"extra_special_tokens": ["<|im_start|>"]})
    tokenizer.chat_template = CHATML
    tokenizer.save_pretrained(folder)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        eos_token_id=tokenizer.eos_token_id,
    )
    torch.manual_seed(0)
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder
