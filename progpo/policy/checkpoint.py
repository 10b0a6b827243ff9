"""A policy on disk: an ordinary Hugging Face checkpoint, and `progpo.json` beside it.

`progpo.json` holds the policy's settings (how it reads and answers). What is sampled depends on the weights, the
architecture and the tokenizer: their hashes make the fingerprint that trajectory shards carry.

The tokenizer is what `tokenizer.json` says, loaded as `PreTrainedTokenizerFast`: `AutoTokenizer` of transformers 5
gives every checkpoint whose model type is qwen2 the tokenizer of the released Qwen2, whatever its files say.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from progpo.artifacts import check, folder_of, sha256, write_json, write_manifest
from progpo.errors import ProgpoError
from progpo.policy.tokenizer import train_tokenizer
from progpo.pruning import OPTIMIZER_FILES
from progpo.seeds import stream
from progpo.settings.base import validate
from progpo.settings.stages import PolicySettings

if TYPE_CHECKING:
    import torch
    from pydantic import BaseModel
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from progpo.policy.qwen2 import Qwen2ForCausalLM

SETTINGS_FILE = "progpo.json"
#: What the fingerprints are taken over, by glob pattern.
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "tokenizer.model",
    "chat_template.*",
    "additional_chat_templates/*",
)
MODEL_FILES = ("config.json", "generation_config.json", "model*.safetensors", "model*.safetensors.index.json")
#: Standard deviation of first weights, times the square root of the hidden size.
INITIAL_WIDTH = 0.7
#: What `save_pretrained` notes about where a tokenizer came from; it would make a copy differ from its original.
PROVENANCE = ("is_local", "local_files_only", "name_or_path", "_commit_hash")


@dataclass
class Policy:
    """A policy in memory.

    Attributes:
        model: in eval mode, float32 unless asked otherwise: one of transformers, or what stands for it
            (`progpo.policy.qwen2`).
        tokenizer: of transformers, or what stands for it.
        settings: how it reads and answers.
        fingerprint: of weights, config and tokenizer as they lie on disk; empty before the first save.
        tokenizer_fingerprint: of the tokenizer's files; empty before the first save.
    """

    model: "PreTrainedModel | Qwen2ForCausalLM"
    tokenizer: "PreTrainedTokenizerFast | LoadedTokenizer"
    settings: PolicySettings
    fingerprint: str = ""
    tokenizer_fingerprint: str = ""


def create_scratch(settings: PolicySettings, texts: Iterable[str], seed: int) -> Policy:
    """Make a small Qwen2 with random weights and a tokenizer for it.

    Args:
        settings: of the policy (`init: scratch`).
        texts: observations and actions of the environment, to learn the tokenizer from.
        seed: of the weights.
    """
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from progpo.policy.composition import compose

    tokenizer = train_tokenizer(texts)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=settings.hidden_size,
        intermediate_size=settings.intermediate_size,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.kv_heads,
        max_position_embeddings=settings.max_context_tokens,
        # 0.02, the usual width, is for models many times as wide: with it this one learns half as fast.
        initializer_range=INITIAL_WIDTH * settings.hidden_size**-0.5,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(stream("weights", seed).integers(2**62)))
        model = Qwen2ForCausalLM(config).eval()
        if settings.embeddings == "composed":
            compose(model.get_input_embeddings().weight, tokenizer.get_vocab())
        with torch.no_grad():
            model.get_input_embeddings().weight.mul_(settings.embedding_scale)
            model.model.norm.weight.div_(settings.embedding_scale)
    _quiet()
    return Policy(model, tokenizer, settings)


def load_pretrained(settings: PolicySettings) -> Policy:
    """Load the checkpoint that `settings.path` names, a folder or a hub id.

    Raises:
        ProgpoError: not to be had, without tokenizer or chat template, some of its weights missing, or with a shorter
            context than asked for.
    """
    import torch
    from huggingface_hub.errors import StrictDataclassError
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    _quiet()
    name = settings.path
    where = f"policy.path: {name!r}"
    if not Path(name).is_dir() and (Path(name).is_absolute() or name.startswith((".", "~")) or name.count("/") > 1):
        raise ProgpoError(f"{where} is no folder that is there, and no hub id; fetch the checkpoint, name its folder")
    if Path(name).is_dir() and not (Path(name) / "tokenizer.json").is_file():
        raise ProgpoError(
            f"{where} has no tokenizer (no tokenizer.json); put the files there that "
            "`AutoTokenizer.from_pretrained(<the model it was trained from>).save_pretrained` writes"
        )
    try:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(name)
        if not tokenizer.chat_template:
            raise ProgpoError(
                f"{where} has no chat template; use an instruction-tuned checkpoint, or put a "
                "chat_template.jinja beside its tokenizer"
            )
        model, loading = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32, output_loading_info=True)
    except (OSError, ValueError, TypeError, RuntimeError, SafetensorError, StrictDataclassError) as error:
        remedy = "" if Path(name).is_dir() else f"; without internet, `hf download {name} --local-dir FOLDER` elsewhere"
        raise ProgpoError(f"{where} is no checkpoint that can be loaded: {_line(error)}{remedy}") from None
    missing = sorted(loading["missing_keys"])
    if missing:
        # They would be drawn at random, with no more than a warning.
        raise ProgpoError(
            f"{where} lacks {len(missing)} of its weights ({missing[0]}, ...); fetch the checkpoint anew, or set right "
            "its config.json"
        )
    _check_context(settings, model.config, where)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return Policy(model.eval(), tokenizer, settings)


def save_files(policy: Policy, folder: Path) -> None:
    """Write checkpoint and `progpo.json` into a folder (the stage's own, temporary one), and set the fingerprints.

    The same policy gives the same bytes, whether it was made here or loaded from a folder.
    """
    policy.model.save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)
    _forget_provenance(folder)
    digests = _digests(folder)
    policy.fingerprint = _combine(digests, MODEL_FILES + TOKENIZER_FILES)
    policy.tokenizer_fingerprint = _combine(digests, TOKENIZER_FILES)
    write_json(
        folder / SETTINGS_FILE,
        {
            "settings": policy.settings.model_dump(mode="json"),
            "fingerprint": policy.fingerprint,
            "tokenizer_fingerprint": policy.tokenizer_fingerprint,
        },
    )


def write_policy_manifest(
    policy: Policy,
    place: Path,
    folder: Path,
    stage: str,
    settings: "BaseModel",
    metrics: Path,
    inputs: Sequence[Path],
    seed: int,
    iteration: int,
) -> None:
    """Write the manifest of a policy that was just saved, last of all in its folder.

    Args:
        policy: as `save_files` left it.
        place: the temporary folder in which it is being made.
        folder: where it will stand.
        stage, settings, inputs: see `progpo.artifacts.write_manifest`.
        metrics: the stage's metrics, beside the folder.
        seed, iteration: that the policy is of; the warm-up is iteration 0.
    """
    write_manifest(
        place,
        stage,
        settings.model_dump(mode="json"),
        files=[*(file for file in place.rglob("*") if file.is_file()), metrics],
        inputs=inputs,
        facts={
            "fingerprint": policy.fingerprint,
            "tokenizer_fingerprint": policy.tokenizer_fingerprint,
            "layout": policy.settings.resolved_layout,
            "iteration": iteration,
            "seed": seed,
        },
        at=folder,
    )


def load_policy(path: Path, strict: bool = True, dtype: "torch.dtype | None" = None, stock: bool = False) -> Policy:
    """Load a policy that a stage made.

    Args:
        path: its folder, or the manifest inside.
        strict: whether a folder without manifest is refused.
        dtype: of the weights; float32 by default.
        stock: whether the model must be one of transformers.

    Raises:
        ProgpoError: files that are missing, damaged or not those of a policy.
    """

    def load_model(folder: Path) -> Any:
        import torch

        from progpo.policy import qwen2

        # On an accelerator transformers' own model is used: what computes on the other is for the processor.
        lean = not stock and qwen2.loadable(folder) and not torch.accelerator.is_available()
        return (qwen2.load if lean else _load_stock)(folder, dtype or torch.float32).eval()

    return _load(path, strict, load_model)


def load_reader(path: Path, strict: bool = True) -> Policy:
    """Load a policy as `load_policy` does, but without its weights: what others compute with is just read and parsed.

    Its model has no more than `config` and `generation_config`.
    """

    def read_configs(folder: Path) -> Any:
        files = (folder / "config.json", folder / "generation_config.json")
        configs = [json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {} for file in files]
        return SimpleNamespace(config=SimpleNamespace(**configs[0]), generation_config=SimpleNamespace(**configs[1]))

    return _load(path, strict, read_configs)


def _load(path: Path, strict: bool, load_model: Callable[[Path], Any]) -> Policy:
    from safetensors import SafetensorError

    folder = folder_of(path)
    if not folder.is_dir():
        raise ProgpoError(f"{folder}: no such policy folder")
    manifest = check(folder, strict, unread=OPTIMIZER_FILES)
    settings = read_settings(folder)
    digests = manifest.files if manifest else _digests(folder)
    for name, what in (("tokenizer.json", "tokenizer"), ("config.json", "model config")):
        if name not in digests:
            raise ProgpoError(f"{folder}: no {what} ({name}) in this policy; rerun the stage that makes it")
    try:
        model = load_model(folder)
        tokenizer = LoadedTokenizer(folder)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ProgpoError(f"{folder}: not a checkpoint that can be loaded: {_line(error)}") from None
    return Policy(
        model,
        tokenizer,
        settings,
        _combine(digests, MODEL_FILES + TOKENIZER_FILES),
        _combine(digests, TOKENIZER_FILES),
    )


class LoadedTokenizer:
    """The tokenizer of a policy's folder.

    The tokens are had from `tokenizer.json` alone; transformers is imported (which takes its time) and its
    `PreTrainedTokenizerFast` asked where something else is wanted. The files are kept as they were, to be saved again.
    """

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        self._files = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for pattern in TOKENIZER_FILES
            for path in folder.glob(pattern)
        }
        self.backend_tokenizer = Tokenizer.from_str(self._files["tokenizer.json"].decode())

    @cached_property
    def _full(self) -> "PreTrainedTokenizerFast":
        from transformers import PreTrainedTokenizerFast

        with TemporaryDirectory() as folder:
            self.save_pretrained(Path(folder))
            return PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._full, name)

    def __len__(self) -> int:
        return len(self._full)

    def save_pretrained(self, folder: Path) -> None:
        """Write the files into a folder."""
        for name, content in self._files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)


def _load_stock(folder: Path, dtype: "torch.dtype") -> "PreTrainedModel":
    from transformers import AutoModelForCausalLM

    _quiet()
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True)


def read_settings(folder: Path) -> PolicySettings:
    """Read a policy's settings from its folder; raises ProgpoError where they are missing or not valid."""
    file = folder / SETTINGS_FILE
    try:
        data = json.loads(file.read_text(encoding="utf-8"))["settings"]
    except (OSError, ValueError, KeyError) as error:
        raise ProgpoError(f"{file}: not a policy's settings ({_line(error)}); is {folder} a policy?") from None
    return validate(PolicySettings, data, str(file))


def fingerprint(folder: Path) -> str:
    """Return the fingerprint of the policy in a folder: 16 hex digits over weights, config and tokenizer."""
    return _combine(_digests(folder), MODEL_FILES + TOKENIZER_FILES)


@contextmanager
def checkpoint_alone(folder: Path) -> Iterator[Path]:
    """Give a folder that holds links to a policy's checkpoint, what its fingerprint is taken over, and nothing else.

    Others read every file of weights that lies in a folder, the optimiser's state beside them too.
    """
    with TemporaryDirectory(prefix="progpo-") as place:
        for pattern in MODEL_FILES + TOKENIZER_FILES:
            for file in folder.glob(pattern):
                link = Path(place) / file.relative_to(folder)
                link.parent.mkdir(exist_ok=True)
                link.symlink_to(file.resolve())
        yield Path(place)


def _digests(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): sha256(path) for path in files}


def _combine(digests: Mapping[str, str], patterns: Iterable[str]) -> str:
    chosen = {
        name: digest
        for name, digest in digests.items()
        if any(PurePosixPath(name).match(pattern) for pattern in patterns)
    }
    return hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:16]


def _check_context(settings: PolicySettings, config: Any, where: str) -> None:
    most = getattr(config, "max_position_embeddings", None)
    if most is not None and settings.max_context_tokens > most:
        raise ProgpoError(
            f"{where} reads {most} tokens at most; set policy.max_context_tokens to that or less "
            f"(it is {settings.max_context_tokens})"
        )


def _forget_provenance(folder: Path) -> None:
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    kept = {key: value for key, value in config.items() if key not in PROVENANCE}
    path.write_text(json.dumps(kept, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def _quiet() -> None:
    from transformers.utils import logging

    logging.disable_progress_bar()


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
