"""Qwen2 (arXiv 2407.10671) as plain modules, to load a checkpoint without importing transformers' model code.

That import takes longer than most jobs of a small policy compute. The modules are named as transformers names them, so
that the same files are read and written; what computes fast on them is `progpo.policy.packed` (whole sequences, for
training) and `progpo.policy.decoder` (new tokens after a cache, for sampling).

Shapes: B sequences, T tokens, C hidden size, H heads, K key/value heads, D head size.
"""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

CONFIG, GENERATION_CONFIG, WEIGHTS = "config.json", "generation_config.json", "model.safetensors"


def loadable(folder: Path) -> bool:
    """Return whether the checkpoint in a folder is a Qwen2 of the common kind: full attention, plain rotary angles."""
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        return (
            config["model_type"] == "qwen2"
            and set(config["layer_types"]) == {"full_attention"}
            and config["hidden_act"] == "silu"
            and config["rope_parameters"]["rope_type"] == "default"
            and not config["attention_dropout"]
            and (folder / WEIGHTS).is_file()
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def load(folder: Path, dtype: torch.dtype) -> "Qwen2ForCausalLM":
    """Load a checkpoint that is `loadable`.

    Raises:
        OSError, ValueError, RuntimeError, SafetensorError: files that are damaged or do not belong together.
    """
    files = {
        name: (folder / name).read_text(encoding="utf-8")
        for name in (CONFIG, GENERATION_CONFIG)
        if (folder / name).is_file()
    }
    model = Qwen2ForCausalLM(files)
    weights = {name: weight.to(dtype) for name, weight in load_file(folder / WEIGHTS).items()}
    model.load_state_dict(weights, assign=True)
    return model


class Qwen2ForCausalLM(nn.Module):
    """The model with its output layer.

    Args:
        files: the texts of `config.json` and, where there is one, `generation_config.json`, kept to be saved again.
    """

    def __init__(self, files: dict[str, str]) -> None:
        super().__init__()
        self._files = files
        self.config = SimpleNamespace(**json.loads(files[CONFIG]))
        self.generation_config = SimpleNamespace(**json.loads(files.get(GENERATION_CONFIG, "{}")))
        self.model = Qwen2Model(self.config)
        if not self.config.tie_word_embeddings:
            self.lm_head = Linear(self.config.hidden_size, self.config.vocab_size, bias=False)

    @property
    def device(self) -> torch.device:
        return self.model.norm.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.model.norm.weight.dtype

    def get_output_embeddings(self) -> nn.Module:
        """Return the module whose `weight` makes hidden states logits."""
        return self.model.embed_tokens if self.config.tie_word_embeddings else self.lm_head

    def forward(self, input_ids: Tensor, **_: Any) -> SimpleNamespace:
        """Return the logits (B, T, vocabulary) of sequences (B, T) of the same length, as `.logits`."""
        return SimpleNamespace(logits=F.linear(self.model(input_ids), self.get_output_embeddings().weight))

    def save_pretrained(self, folder: Path) -> None:
        """Write the checkpoint as transformers does."""
        for name, text in self._files.items():
            (folder / name).write_text(text, encoding="utf-8")
        weights = {name: weight.contiguous() for name, weight in self.state_dict().items()}
        save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})


class Qwen2Model(nn.Module):
    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        self.embed_tokens = Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = Norm(config)
        self.rotary_emb = Rotary(config)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed_tokens(tokens)
        turns = self.rotary_emb(x, torch.arange(tokens.shape[1], device=tokens.device)[None])
        for layer in self.layers:
            x = layer(x, turns)
        return self.norm(x)


class Layer(nn.Module):
    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = Norm(config), Norm(config)
        self.self_attn, self.mlp = Attention(config), Gated(config)

    def forward(self, x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), turns)
        return x + self.mlp(self.post_attention_layernorm(x))


class Attention(nn.Module):
    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        heads, shared = config.num_attention_heads, config.num_key_value_heads
        self.head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
        self.scaling = self.head_dim**-0.5
        self.q_proj = Linear(config.hidden_size, heads * self.head_dim)
        self.k_proj = Linear(config.hidden_size, shared * self.head_dim)
        self.v_proj = Linear(config.hidden_size, shared * self.head_dim)
        self.o_proj = Linear(heads * self.head_dim, config.hidden_size, bias=False)

    def forward(self, x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
        # (B, H or K, T, D)
        q, k, v = (
            layer(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = _turn(q, *turns), _turn(k, *turns)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True, scale=self.scaling)
        return self.o_proj(out.transpose(1, 2).flatten(2))


class Gated(nn.Module):
    """SwiGLU (arXiv 2002.05202)."""

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        self.gate_proj = Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Linear(nn.Module):
    """As torch's, but without first values: those of torch's take as long as loading, and the weights are loaded."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class Embedding(nn.Module):
    """As torch's, but without first values."""

    def __init__(self, count: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(count, size))

    def forward(self, tokens: Tensor) -> Tensor:
        return F.embedding(tokens, self.weight)


class Norm(nn.Module):
    """RMSNorm (arXiv 1910.07467)."""

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.hidden_size))
        self.variance_epsilon = config.rms_norm_eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), x.shape[-1:], eps=self.variance_epsilon).to(x.dtype) * self.weight


class Rotary(nn.Module):
    """The angles of rotary position embedding (arXiv 2104.09864)."""

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        self._base = config.rope_parameters["rope_theta"]
        self._size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads

    def forward(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines (B, T, D) at positions (B, T), in the dtype of `x`, the D/2 angles twice."""
        exponents = torch.arange(0, self._size, 2, dtype=torch.float32, device=positions.device) / self._size
        angles = positions[..., None].float() * (1.0 / self._base**exponents)
        angles = torch.cat((angles, angles), -1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


def _turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair (i, i + D/2) of features (B, H, T, D) by its position's angle."""
    a, b = x.chunk(2, -1)
    return x * cos[:, None] + torch.cat((-b, a), -1) * sin[:, None]
