"""A broker with users and over TLS: what the URL says reaches Redis, on every connection."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from agentcompass.errors import BrokerUnreachable
from tests.support.tls import TlsProxy, make_certificate
from tests.support.worker_lab import WorkerLab, ledger, until
from workers.dispatch import RedisQueue

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl"),
]
PASSWORD = "s3cr:et/pass@word"


def test_a_run_over_tls_as_a_user_with_a_password(lab: WorkerLab, tmp_path: Path) -> None:
    rights = ("on", f">{PASSWORD}", "~*", "&*", "+@all")
    lab.broker.client.execute_command("ACL", "SETUSER", "agent", *rights)
    certificate = make_certificate(tmp_path)
    with TlsProxy(certificate, int(urlsplit(lab.broker.url).port or 0)) as proxy:
        host = f"agent:{quote(PASSWORD, safe='')}@localhost:{proxy.port}"
        url = f"rediss://{host}/0?ssl_ca_certs={certificate}"
        lab.broker.url = url
        lab.reconnect()
        run = lab.run(2)
        lab.worker()
        lab.finalizer()
        lab.dispatch(run, 2)
        until(lambda: ledger(run, "finalize 2"))
        trusting_nobody = RedisQueue(f"rediss://{host}/0")
        with pytest.raises(BrokerUnreachable, match="CERTIFICATE_VERIFY_FAILED") as refused:
            trusting_nobody.ping(5)
        trusting_nobody.close()
        lab.close()

    assert "s3cr" not in str(refused.value)
    assert "s3cr" not in lab.log()
