"""A model and a task's variables with their secrets in place, on the worker, at the moment of use."""

from __future__ import annotations

from collections.abc import Mapping

from agentcompass.errors import AttemptFailure
from agentcompass.models.context import ModelEndpoint
from agentcompass.models.request import MASK, ModelSpec, SecretRef
from agentcompass.models.secret import SecretValue
from agentcompass.runtime.values import references
from agentcompass.runtime.values.references import REFERENCE, resolve


def variables(env: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return a task's variables; a value that is exactly `${NAME}` is the worker's value of NAME."""
    return {
        name: substitute(value, environ) if REFERENCE.fullmatch(value) else value
        for name, value in env.items()
    }


def substitute(text: str, environ: Mapping[str, str]) -> str:
    """Return text with every `${NAME}` replaced by the worker's value of NAME."""
    if "${" not in text:
        return text
    return REFERENCE.sub(lambda m: resolve(SecretRef(env=m[1]), environ).reveal(), text)


def endpoint(spec: ModelSpec, environ: Mapping[str, str]) -> ModelEndpoint:
    """Return the model with every secret resolved; the mask is never sent anywhere."""
    if spec.api_key == MASK or MASK in spec.headers.values():
        raise AttemptFailure(
            "fatal",
            "setup",
            "secret_missing",
            "the request holds a masked secret; name its environment variable instead",
        )
    key = resolve(spec.api_key, environ) if isinstance(spec.api_key, SecretRef) else None
    headers = {name: _header(name, value, environ) for name, value in spec.headers.items()}
    url = substitute(spec.base_url, environ)
    params = references.params_on_worker(spec.params, environ)
    if url is not spec.base_url or params is not spec.params:
        spec = spec.model_copy(update={"base_url": url, "params": params})
    return ModelEndpoint(spec=spec, api_key=key, headers=headers)


def _header(name: str, value: str | SecretRef, environ: Mapping[str, str]) -> str | SecretValue:
    if isinstance(value, SecretRef):
        return resolve(value, environ)
    filled = substitute(value, environ)
    return value if filled == value else SecretValue(filled, name=name.replace("-", "_"))
