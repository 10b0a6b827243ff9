"""The shard's columns and its file metadata, versioned."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from progpo import __version__
from progpo.errors import ProgpoError

#: Version of the format: raised when a column or a metadata entry changes its meaning.
FORMAT = 1
#: Where a Parquet file's metadata holds ours, as one JSON object.
METADATA_KEY = b"progpo"
#: What identifies a row.
KEYS = ("group", "trajectory", "step")


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


#: One row a step. Text is plain Arrow strings, dictionary-encoded inside Parquet only: every reader opens it.
#: Null in a list column: not recorded (demonstrations have no log-probabilities).
SCHEMA = pa.schema(
    [
        *(_required(name, pa.int32()) for name in KEYS),
        _required("task", pa.string()),
        _required("task_type", pa.string()),
        _required("observation", pa.string()),
        _required("next_observation", pa.string()),
        pa.field("state_key", pa.string()),
        pa.field("next_state_key", pa.string()),
        _required("action", pa.string()),
        _required("valid", pa.bool_()),
        _required("reward", pa.float32()),
        _required("outcome", pa.float32()),
        _required("score", pa.float32()),
        _required("terminated", pa.bool_()),
        _required("truncated", pa.bool_()),
        pa.field("context_tokens", pa.list_(pa.int32())),
        pa.field("response_tokens", pa.list_(pa.int32())),
        pa.field("response_logprobs", pa.list_(pa.float32())),
        pa.field("admissible", pa.list_(pa.string())),
        pa.field("history_cut", pa.int32()),
        _required("imitate", pa.bool_()),
    ]
)

Kind = Literal["rollout", "demonstration", "evaluation"]


@dataclass(frozen=True)
class Metadata:
    """What a shard says about itself.

    Attributes:
        kind: which stage made it.
        policy, tokenizer: fingerprints of what sampled it; None for an expert's.
        settings: the stage's settings.
        seed, iteration: of the random streams.
        shard, shards: its index, and how many there are of its iteration.
        layout: "append": a step's context is all tokens so far; "window": each step's context stands alone.
        choices: what a constrained policy chose among: the "admissible" actions, or the "untried" of them; None: any
            text, or not told.
        temperature: of sampling, at which the log-probabilities are.
        dropped: the groups that were sampled and replaced (dynamic sampling), in their order: task, task type,
            trajectories, successes.
        version: of the package that wrote it.
        format: of the file.
    """

    kind: Kind
    policy: str | None = None
    tokenizer: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    iteration: int = 0
    shard: int = 0
    shards: int = 1
    layout: str | None = None
    choices: str | None = None
    temperature: float | None = None
    dropped: Sequence[tuple[str, str, int, int]] = field(default_factory=list)
    version: str = __version__
    format: int = FORMAT

    def encode(self) -> dict[bytes, bytes]:
        """Return the key/value metadata for a Parquet file."""
        return {METADATA_KEY: json.dumps(asdict(self), sort_keys=True).encode()}

    @classmethod
    def decode(cls, metadata: Mapping[bytes, bytes] | None, path: Path) -> "Metadata | None":
        """Read a file's metadata; None where it has none of ours.

        Raises:
            ProgpoError: unreadable metadata, or another format version.
        """
        text = (metadata or {}).get(METADATA_KEY)
        if text is None:
            return None
        try:
            data = json.loads(text)
            version = data["format"]
        except (ValueError, KeyError, TypeError) as error:
            raise ProgpoError(f"{path}: its metadata cannot be read ({error!r}); make the shard anew") from None
        if version != FORMAT:
            raise ProgpoError(
                f"{path}: shard format {version}, this version of progpo ({__version__}) reads {FORMAT}; "
                "make the shard anew with this version"
            )
        try:
            return cls(**data)
        except TypeError as error:
            raise ProgpoError(f"{path}: its metadata is not as format {FORMAT} has it ({error})") from None
