"""What tests of backends share: stand-ins for vLLM and for a server with OpenAI's API, and looks at what they made."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from progpo.policy import qwen2
from progpo.trajectories.read import read_shard, to_trajectories
from progpo.trajectories.records import Trajectory


def trajectories(*shards: Path) -> list[Trajectory]:
    return list(chain(*(to_trajectories(read_shard(shard)[0]) for shard in shards)))


def tokens(*shards: Path) -> list[list[list[int]]]:
    return [[list(step.response_tokens) for step in item.steps] for item in trajectories(*shards)]


def prompts(items: list[Trajectory]) -> list[list[int]]:
    """Return the tokens before each response, of a policy whose conversations are appended to."""
    found = []
    for item in items:
        before: list[int] = []
        for step in item.steps:
            before = [*before, *step.context_tokens]
            found.append(before)
            before = [*before, *step.response_tokens]
    return found


def deviation(model, items: list[Trajectory], temperature: float) -> float:
    """Return by how much recorded log-probabilities differ at most from those of whole forward passes."""
    most = 0.0
    steps = [step for item in items for step in item.steps]
    for before, step in zip(prompts(items), steps, strict=True):
        with torch.no_grad():
            logits = model(torch.tensor([[*before, *step.response_tokens]])).logits[0, len(before) - 1 : -1]
        found = torch.log_softmax(logits / temperature, -1)
        wanted = found[range(len(step.response_tokens)), list(step.response_tokens)]
        most = max(most, (wanted - torch.tensor(step.response_logprobs)).abs().max().item())
    return most


def respond(model: Any, prompt: list[int], asked: Any, raw: bool) -> tuple[list[int], list[float], list[list[float]]]:
    """Sample a response from whole forward passes, with a generator of the request's own seed.

    Returns:
        Its tokens, their log-probabilities (raw: at temperature 1), and the two highest of each position.
    """
    generator = torch.Generator()
    if asked.seed is not None:
        generator.manual_seed(asked.seed)
    tokens, logprobs, highest = [], [], []
    while len(tokens) < asked.max_tokens and not (tokens and tokens[-1] in asked.stop_token_ids):
        with torch.no_grad():
            logits = model(torch.tensor([[*prompt, *tokens]])).logits[0, -1]
        tempered = torch.log_softmax(logits / (asked.temperature or 1.0), -1)
        drawn = torch.multinomial(tempered.exp(), 1, generator=generator) if asked.temperature else logits.argmax()
        told = torch.log_softmax(logits, -1) if raw else tempered
        tokens.append(int(drawn))
        logprobs.append(float(told[tokens[-1]]))
        highest.append(told.topk(2).values.tolist())
    return tokens, logprobs, highest


@dataclass
class Vllm:
    """What of vLLM is used. Every step answers the request that was asked last.

    Attributes:
        loaded: the arguments of each LLM.
        asked: all requests: name, prompt, parameters.
        resets: of the prefix cache, each with the number of requests before it.
    """

    head_sizes: tuple[int, ...] = (16,)
    finish: str | None = None
    loaded: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, list[int], Any]] = field(default_factory=list)
    resets: list[int] = field(default_factory=list)

    def llm(self, folder: str, **given: Any) -> Any:
        self.loaded.append(given)
        # vLLM reads all of them.
        (weights,) = Path(folder).glob("*.safetensors")
        model = qwen2.load(weights.parent, torch.float32).eval()
        waiting: dict[str, tuple[list[int], Any]] = {}

        def add_request(name: str, prompt: dict[str, Any], asked: Any) -> None:
            assert prompt["type"] == "token"
            self.asked.append((name, prompt["prompt_token_ids"], asked))
            waiting[name] = (prompt["prompt_token_ids"], asked)

        def step() -> list[Any]:
            name, (prompt, asked) = waiting.popitem()
            raw = given["logprobs_mode"] != "processed_logprobs"
            tokens, logprobs, highest = respond(model, prompt, asked, raw)
            # Flat: each position's sampled token first, then the likeliest.
            flat = [value for own, pair in zip(logprobs, highest, strict=True) for value in (own, *pair)]
            ended = "stop" if tokens[-1] in asked.stop_token_ids else "length"
            output = SimpleNamespace(
                token_ids=tuple(tokens),
                finish_reason=self.finish or ended,
                logprobs=SimpleNamespace(logprobs=flat, start_indices=range(0, len(flat), 3)),
            )
            return [SimpleNamespace(request_id=name, outputs=[output])]

        def reset_prefix_cache() -> None:
            self.resets.append(len(self.asked))

        engine = SimpleNamespace(add_request=add_request, step=step, reset_prefix_cache=reset_prefix_cache)
        return SimpleNamespace(llm_engine=engine)

    def modules(self) -> dict[str, ModuleType]:
        """Return what stands in `sys.modules`."""
        kinds = SimpleNamespace(FINAL_ONLY="final")
        backend = SimpleNamespace(get_supported_head_sizes=lambda: list(self.head_sizes))
        contents: dict[str, dict[str, Any]] = {
            "vllm": {"LLM": self.llm, "SamplingParams": SimpleNamespace, "__version__": "0"},
            "vllm.sampling_params": {"RequestOutputKind": kinds},
            "vllm.platforms": {"current_platform": SimpleNamespace(device_type="cpu")},
            "vllm.v1": {},
            "vllm.v1.attention": {},
            "vllm.v1.attention.backends": {},
            "vllm.v1.attention.backends.cpu_attn": {"CPUAttentionBackend": backend},
        }
        modules = {}
        for name, content in contents.items():
            modules[name] = ModuleType(name)
            modules[name].__dict__.update(content)
        modules["vllm"].sampling_params = modules["vllm.sampling_params"]
        return modules


@dataclass
class Server:
    """What a server does.

    Attributes:
        model: that it serves.
        name: under which; None: none yet.
        raw: log-probabilities at temperature 1.
        without: fields of a choice that it leaves out.
        trims: says that each response ended, and leaves its end token out.
        limit: max_model_len, where it tells it.
        key: that it wants.
        failures: requests that it answers with status 500 first.
        asked: bodies of the requests to /v1/completions.
    """

    model: Any
    name: str | None
    raw: bool = False
    without: tuple[str, ...] = ()
    trims: bool = False
    limit: int | None = None
    key: str | None = None
    failures: int = 0
    asked: list[dict[str, Any]] = field(default_factory=list)

    def models(self) -> dict[str, Any]:
        return {"data": [{"id": self.name, "max_model_len": self.limit}] if self.name else []}

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(body)
        asked = SimpleNamespace(**body)
        tokens, logprobs, highest = respond(self.model, body["prompt"], asked, self.raw)
        trimmed = self.trims and body["max_tokens"] > 1
        ended = trimmed or tokens[-1] in body["stop_token_ids"]
        kept = 1 if trimmed else len(tokens)
        choice = {
            "text": "",
            "finish_reason": "stop" if ended else "length",
            "token_ids": tokens[:kept],
            "logprobs": {
                "token_logprobs": logprobs[:kept],
                "top_logprobs": [dict(zip("ab", pair, strict=True)) for pair in highest[:kept]],
            },
        }
        return {"choices": [{name: value for name, value in choice.items() if name not in self.without}]}


@contextmanager
def serving(server: Server) -> Iterator[str]:
    """Run a server; gives its URL."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None: ...

        def reply(self, status: int, content: dict[str, Any]) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            assert self.path == "/v1/models"
            self.reply(200, server.models())

        def do_POST(self) -> None:
            assert self.path == "/v1/completions"
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                if server.key and self.headers["Authorization"] != f"Bearer {server.key}":
                    self.reply(401, {"error": {"message": "Unauthorized"}})
                elif server.failures:
                    server.failures -= 1
                    self.reply(500, {"message": "too busy"})
                else:
                    self.reply(200, server.complete(body))

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{running.server_port}"
    finally:
        running.shutdown()
        running.server_close()
