"""The base of all settings models, and their JSON form."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from progpo.errors import ProgpoError

M = TypeVar("M", bound=BaseModel)

Count = Annotated[int, Field(ge=1)]
NonNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Precision = Literal["auto", "float32", "bfloat16", "portable"]


class Settings(BaseModel):
    """Frozen, and an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def canonical(settings: BaseModel) -> str:
    """Return the settings as JSON with sorted keys and every default written out: equal settings, equal text."""
    return json.dumps(settings.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))


def explain(error: ValidationError, where: str) -> ProgpoError:
    """Turn pydantic's report into one line a problem, each naming the key."""
    lines = []
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"])
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            message = "unknown setting"
        got = "" if problem["type"] in ("extra_forbidden", "missing", "value_error") else f" (got {problem['input']!r})"
        lines.append(f"{where}: {key + ': ' if key else ''}{message}{got}")
    return ProgpoError("\n".join(lines))


def validate(model: type[M], data: Any, where: str) -> M:
    """Validate data against a model; raises ProgpoError that names each wrong key."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise explain(error, where) from None


def load_json(model: type[M], text_or_path: str, where: str = "--settings") -> M:
    """Read a stage's settings from JSON text or from a JSON file.

    Raises:
        ProgpoError: neither JSON nor a file, or settings that do not validate.
    """
    text = text_or_path
    if not text.lstrip().startswith("{"):
        try:
            text = Path(text_or_path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise ProgpoError(f"{where}: {text_or_path} is not a text file") from None
        except OSError as error:
            raise ProgpoError(
                f"{where}: neither JSON text nor a readable file: {text_or_path!r} ({error.strerror})"
            ) from None
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ProgpoError(f"{where}: not valid JSON: {error}") from None
    return validate(model, data, where)
