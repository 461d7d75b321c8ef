from __future__ import annotations

import pytest
from pydantic import JsonValue

from agentcompass.runtime.redact import is_secret_name, mask_urls, redact


@pytest.mark.parametrize(
    "name",
    [
        "authorization", "Proxy-Authorization", "cookie", "Set-Cookie", "password", "db_password",
        "passphrase", "passwd", "secret", "clientSecret", "token", "x-auth-token", "accessToken",
        "api_key", "apiKey", "OPENAI_API_KEY", "X-API-KEY", "access key", "AWS_ACCESS_KEY",
        "private-key", "credentials", "session_id", "sessionId", "dsn", "SENTRY_DSN",
        "connection_string", "webhook_url", "slackWebhookUrl", "PGPASSWORD", "BEARER", "refreshtoken",
        "AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY_2", "api_keys", "FLOWER_BASIC_AUTH", "SECRET_KEY",
    ],
)  # fmt: skip
def test_a_name_of_a_secret_is_one_in_any_spelling(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "max_tokens", "input_tokens", "token_count", "eos_token", "pad_token", "tokenizer",
        "sort_key", "primary_key", "key_points", "author", "authorized", "password_policy_enabled",
        "eostoken", "nextToken", "num_key_value_heads", "monkey", "total_tokens", "PATH", "LANG",
        "MODEL", "key", "secretary", "keyboard", "session", "webhook", "", "id", "ms_per_token",
    ],
)  # fmt: skip
def test_a_name_that_only_looks_like_one_is_not(name: str) -> None:
    assert not is_secret_name(name)


def test_values_under_secret_names_are_masked_at_every_depth() -> None:
    found = redact({"a": [{"api_key": "x", "max_tokens": 5}], "headers": {"Cookie": ["c"]}})

    assert found == {
        "a": [{"api_key": "********", "max_tokens": 5}],
        "headers": {"Cookie": "********"},
    }


@pytest.mark.parametrize(
    "value", [None, "", True, {"env": "OPENAI_API_KEY"}, "${OPENAI_API_KEY}", "********"]
)
def test_references_and_nothing_are_not_masked(value: JsonValue) -> None:
    assert redact({"api_key": value}) == {"api_key": value}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("redis://user:pw@host:6379/0", "redis://********@host:6379/0"),
        ("see https://h/p?api_key=abc&page=2 now", "see https://h/p?api_key=********&page=2 now"),
        ("https://h/p?next=1#access_token=abc", "https://h/p?next=1#access_token=********"),
        ("https://a:b@c@host/x", "https://********@host/x"),
        ("redis://:${KEY}@host/0", "redis://:${KEY}@host/0"),
        ("mailto:a@b", "mailto:a@b"),
        ("https://host/a@b", "https://host/a@b"),
    ],
)
def test_credentials_in_urls_are_masked_and_hosts_stay(text: str, expected: str) -> None:
    assert mask_urls(text) == expected


def test_a_clean_value_is_returned_and_not_copied() -> None:
    value: JsonValue = {"a": [1, {"b": "text"}]}

    assert redact(value) is value
