from __future__ import annotations

from pathlib import Path

import pytest

from shrinkrepro.runtime.secrets import looks_secret, secret_places, without_secrets


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN", "GITHUB_TOKEN", "HUGGINGFACETOKEN", "TOKEN", "WANDB_API_KEY", "OPENAI_API_KEY", "SSH_KEY",
        "AWS_ACCESS_KEY_ID",        "AWS_SESSION_TOKEN", "AZURE_TENANT_ID", "DB_PASSWORD", "PGPASSWORD",
        "CLIENT_SECRET", "SECRET_KEY_BASE",
        "GOOGLE_APPLICATION_CREDENTIALS", "DATABASE_URL", "SENTRY_DSN", "GH_PAT", "SSH_AUTH_SOCK", "kaggle_key",
        "DBUS_SESSION_BUS_ADDRESS",
    ],
)  # fmt: skip
def test_it_looks_secret(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "PATH", "HOME", "PYTHONPATH", "TOKENIZERS_PARALLELISM", "HF_HOME", "CUDA_VISIBLE_DEVICES",
        "OMP_NUM_THREADS", "LANG",        "MAX_TOKENS", "KEYBOARD",
        "MONKEY", "PWD", "OLDPWD", "WANDB_PROJECT", "MASTER_ADDR",
    ],
)  # fmt: skip
def test_it_does_not_look_secret(name: str) -> None:
    assert not looks_secret(name)


def test_an_environment_keeps_what_does_not_look_secret() -> None:
    assert without_secrets({"PATH": "/bin", "HF_TOKEN": "x"}) == {"PATH": "/bin"}


def test_the_places_of_secrets_are_those_that_exist_with_links_followed(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / ".ssh").symlink_to("keys")
    (tmp_path / ".netrc").write_text("secret")
    assert sorted(secret_places(str(tmp_path))) == [str(tmp_path / ".netrc"), str(tmp_path / "keys")]
