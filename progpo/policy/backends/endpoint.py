"""Servers with OpenAI's completions API as a backend, where they take and return token ids: vLLM's, SGLang's.

That a server holds the policy at hand, and no other iteration's, is told by the name it serves it under: the policy's
fingerprint. `progpo serve` starts vLLM's server that way, from the very files that the fingerprint is taken over.
"""

import http.client
import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from progpo.errors import ProgpoError
from progpo.policy.backends.base import Answer, Backend, Turn
from progpo.policy.checkpoint import Policy
from progpo.settings.sampling import SamplingSettings

#: Environment variable with the servers' key, where they want one.
KEY = "PROGPO_ENDPOINT_KEY"
#: Seconds before a request that failed on the way, or for which the server had no room, is made again.
PAUSES = (1, 4, 15)
#: Seconds between looks at servers that do not serve the policy yet.
LOOK_EVERY = 5
#: What servers write for minus infinity.
NOTHING = -9999.0


class Endpoint(Backend):
    """A policy that servers hold.

    Args:
        folder: of the policy.
        policy: the same, read without its weights (`load_reader`).
        temperature: of sampling; 0: greedy.
        settings: batch, and `endpoint`.

    Raises:
        ProgpoError: no server serves this policy, or one does not return token ids, or log-probabilities at the
            sampling temperature.
    """

    def __init__(self, folder: Path, policy: Policy, temperature: float, settings: SamplingSettings) -> None:
        super().__init__(policy, temperature)
        self._common = {
            "model": policy.fingerprint,
            "temperature": temperature,
            "max_tokens": self.renderer.response_limit,
            "stop_token_ids": sorted(self.renderer.end_ids),
            "logprobs": 1,
            "return_token_ids": True,
            # Servers without a tokenizer can name tokens in no other way.
            "return_tokens_as_token_ids": True,
            "skip_special_tokens": False,
            "top_p": 1.0,
        }
        self._servers = self._find(folder, settings)
        for server in self._servers:
            self._probe(server)
        self._pool = ThreadPoolExecutor(settings.batch)
        self._waiting: dict[Future[dict[str, Any]], Turn] = {}

    def facts(self) -> dict[str, Any]:
        return {"backend": "endpoint", "servers": [server.url for server in self._servers]}

    def begin(self, rows: int) -> None:
        """Nothing to do: what a server's cache holds is the server's affair."""

    def ask(self, turn: Turn) -> None:
        # An episode stays with a server, which has what it read of it in its cache.
        server = self._servers[sum(turn.key[2:]) % len(self._servers)]
        asked = {**self._common, "prompt": list(turn.prompt), "seed": turn.seed}
        self._waiting[self._pool.submit(server.post, "/v1/completions", asked)] = turn

    def answers(self) -> list[Answer]:
        ready, _ = wait(self._waiting, return_when=FIRST_COMPLETED)
        # In the order in which they were asked.
        done = [future for future in self._waiting if future in ready]
        return [self._read(self._waiting.pop(future), future.result()) for future in done]

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _read(self, turn: Turn, reply: Mapping[str, Any]) -> Answer:
        choice = _choice(reply)
        tokens, logprobs = choice.get("token_ids"), (choice.get("logprobs") or {}).get("token_logprobs")
        if not _are(tokens, int):
            raise ProgpoError(
                f"{self.name}: the server returns no token ids (`return_token_ids` of /v1/completions), and text "
                "encoded anew would not be what was sampled; use a server that does (vLLM, SGLang), or `backend: vllm`"
            )
        if not _are(logprobs, float | int) or len(logprobs) != len(tokens):
            raise ProgpoError(
                f"{self.name}: the server returns no log-probability for each token (`logprobs` of /v1/completions); "
                "use a server that does (vLLM, SGLang), or `backend: vllm`"
            )
        if choice.get("finish_reason") == "stop" and tokens[-1] not in self.renderer.end_ids:
            raise ProgpoError(
                f"{self.name}: the server leaves out the token that ended a response, or ended it without one; use a "
                "server that returns every token that was sampled"
            )
        if choice.get("finish_reason") not in ("stop", "length"):
            raise ProgpoError(
                f"{self.name}: the server gave up a response ({choice.get('finish_reason')}); run the stage again"
            )
        return Answer(turn, tokens, [-float("inf") if value <= NOTHING else float(value) for value in logprobs])

    def _find(self, folder: Path, settings: SamplingSettings) -> list["_Server"]:
        """Return the servers that serve the policy."""
        given = settings.endpoint
        servers = [_Server(url, given.timeout) for url in given.urls]
        until = time.monotonic() + given.wait
        while True:
            served = {server: server.models() for server in servers}
            found = [server for server, models in served.items() if self.policy.fingerprint in models]
            if found or time.monotonic() > until:
                break
            time.sleep(min(LOOK_EVERY, given.wait))
        if not found:
            told = "; ".join(f"{server.url}: {_told(models)}" for server, models in served.items())
            raise ProgpoError(
                f"endpoint.urls: none serves {folder} under its fingerprint, {self.policy.fingerprint} ({told}); "
                f"start one with `progpo serve {folder}`"
            )
        limit = self.policy.settings.max_context_tokens
        for server in found:
            most = served[server][self.policy.fingerprint]
            if most is not None and most < limit:
                raise ProgpoError(
                    f"{server.url} reads {most} tokens at most, and policy.max_context_tokens is {limit}; start the "
                    "server with room for that many"
                )
        return found

    def _probe(self, server: "_Server") -> None:
        """Check that what a server returns is what is recorded."""
        prompt = [self.renderer.end_id]
        asked = {**self._common, "prompt": prompt, "max_tokens": 1, "seed": 0, "logprobs": 2}
        replies = [
            server.post("/v1/completions", {**asked, "temperature": at}) for at in (1.0, self.temperature or 1.0)
        ]
        for reply in replies:
            self._read(Turn((0, 0, 0, 0), 0, prompt), reply)
        if self.temperature in (0.0, 1.0):
            return
        # Between the two likeliest tokens, the gap grows as the temperature falls.
        plain, tempered = map(_gap, replies)
        if plain is None or tempered is None or abs(tempered * self.temperature - plain) > abs(tempered - plain):
            raise ProgpoError(
                f"{server.url}: its log-probabilities are at temperature 1, not at the sampling temperature "
                f"({self.temperature:g}); start vLLM with `--logprobs-mode processed_logprobs`, as `progpo serve` does"
            )


class _Server:
    """One server. Each thread has a connection of its own, that it keeps."""

    def __init__(self, url: str, timeout: float) -> None:
        parts = urlsplit(url)
        self.url, self.timeout = url, timeout
        self._path = parts.path.rstrip("/").removesuffix("/v1")
        self._place = (parts.hostname, parts.port)
        self._kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._own = threading.local()

    def models(self) -> dict[str, int | None] | str:
        """Return the names that it serves, with the most tokens that each reads; or why that cannot be told."""
        try:
            listed = self._ask("GET", "/v1/models", None)["data"]
            return {model["id"]: model.get("max_model_len") for model in listed}
        except (OSError, http.client.HTTPException, _Busy) as error:
            return f"not reached ({error or type(error).__name__})"
        except (KeyError, TypeError):
            return "no list of models at /v1/models"

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reply; what fails on the way is tried again."""
        for pause in (*PAUSES, None):
            try:
                return self._ask("POST", path, json.dumps(body))
            except (OSError, http.client.HTTPException, _Busy) as error:
                if pause is None:
                    raise ProgpoError(
                        f"{self.url}: no answer ({error or type(error).__name__}), tried {len(PAUSES) + 1} times; "
                        "look at the server's log, and run the stage again"
                    ) from None
                time.sleep(pause)
        raise AssertionError

    def _ask(self, method: str, path: str, body: str | None) -> dict[str, Any]:
        connection = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = self._kind(*self._place, timeout=self.timeout)
        headers = {"Content-Type": "application/json"}
        if os.environ.get(KEY):
            headers["Authorization"] = f"Bearer {os.environ[KEY]}"
        try:
            connection.request(method, self._path + path, body, headers)
            reply = connection.getresponse()
            content = reply.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            raise
        if reply.status == 429 or reply.status >= 500:
            raise _Busy(f"status {reply.status}: {_message(content)}")
        if reply.status != 200:
            hint = f"; set {KEY} to its key" if reply.status in (401, 403) else ""
            raise ProgpoError(f"{self.url}{path}: refused with status {reply.status}: {_message(content)}{hint}")
        try:
            return json.loads(content)
        except ValueError:
            raise ProgpoError(f"{self.url}{path}: answers with something that is not JSON") from None


class _Busy(Exception):
    """The server cannot answer now."""


def _choice(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return reply["choices"][0]
    except (KeyError, IndexError, TypeError):
        return {}


def _gap(reply: Mapping[str, Any]) -> float | None:
    """Return by how much the likeliest token's log-probability exceeds the next one's; None where it is not told."""
    listed = (_choice(reply).get("logprobs") or {}).get("top_logprobs")
    values = sorted((listed or [{}])[0].values())[-2:] if _are(listed, dict) else []
    return values[1] - values[0] if len(values) == 2 else None


def _are(values: Any, kind: Any) -> bool:
    return isinstance(values, Sequence) and len(values) > 0 and all(isinstance(value, kind) for value in values)


def _told(models: dict[str, Any] | str) -> str:
    return models if isinstance(models, str) else f"serves {', '.join(models) or 'nothing'}"


def _message(content: bytes) -> str:
    try:
        data = json.loads(content)
        return str(data.get("message") or data.get("error", {}).get("message") or data)[:300]
    except (ValueError, AttributeError):
        return content.decode(errors="replace").strip()[:300]
