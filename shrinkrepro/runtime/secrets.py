"""What a run has no business with: where people keep keys and passwords, and variables that hold some.

A program that was cut to pieces should not read them, and what it prints ends up in reports.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

__all__ = ["looks_secret", "secret_places", "without_secrets"]

# Files and folders below the home folder: keys and passwords, clouds, services for developers, browsers and mail.
PLACES = (
    *(".ssh", ".gnupg", ".password-store", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".git-credentials"),
    *(".vault-token", ".local/share/keyrings", ".local/share/kwalletd", "Library/Keychains"),
    *(".aws", ".azure", ".boto", ".config/gcloud", ".config/rclone", ".config/doctl", ".oci", ".s3cfg", ".kube"),
    *(".terraform.d", ".pypirc", ".npmrc", ".docker/config.json", ".config/gh", ".config/hub"),
    *(".config/pypoetry/auth.toml", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials"),
    *(".cache/huggingface/token", ".cache/huggingface/stored_tokens", ".huggingface/token"),
    *(".kaggle", ".config/kaggle", ".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium"),
    *(".config/BraveSoftware", ".config/microsoft-edge", ".config/vivaldi", ".config/opera"),
    *("snap/firefox", "snap/chromium", ".var/app/org.mozilla.firefox", "Library/Application Support/Firefox"),
    *("Library/Application Support/Google/Chrome", "Library/Safari", "Library/Cookies"),
    *("AppData/Local/Google/Chrome", "AppData/Local/Microsoft/Edge", "AppData/Roaming/Mozilla"),
)

# A name is secret by one of its words, by its end, or as a whole.
_WORDS = r"(?:TOKEN|SECRETS?|PASSWORDS?|PASSWD|PASSPHRASE|CREDENTIALS?|APIKEY)"
_SECRET = re.compile(
    rf"(?:.*_)?{_WORDS}(?:_.*)?|.*[A-Z](?:TOKEN|SECRET|PASSWORD|PASSWD)|.*_(?:KEY|KEYS|KEY_ID|PAT|PWD|AUTH|DSN)"
    r"|AWS_.*|AZURE_.*"
    r"|DATABASE_URL|KUBECONFIG|NETRC|SSH_AUTH_SOCK|SSH_AGENT_PID|GPG_AGENT_INFO|DBUS_SESSION_BUS_ADDRESS"
)


def looks_secret(name: str) -> bool:
    """Whether an environment variable of this name probably holds a secret, or leads to one."""
    return _SECRET.fullmatch(name.upper()) is not None


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without the variables that look secret."""
    return {name: value for name, value in environment.items() if not looks_secret(name)}


def secret_places(home: str) -> tuple[str, ...]:
    """The files and folders below `home` that hold secrets and exist, links followed."""
    paths = (os.path.join(home, place) for place in PLACES)
    return tuple(os.path.realpath(path) for path in paths if os.path.exists(path))
