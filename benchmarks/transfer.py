"""Fetches files from HTTP servers: resumes cut connections, and refuses what is no data."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException, HTTPMessage, HTTPResponse, InvalidURL
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from extrap.errors import first_line, shown

WAITS = (1.0, 4.0)
"""Seconds before a request is repeated whose connection was cut or whose server is busy."""
TIMEOUT = 30.0
"""Seconds without a byte."""
LONGEST = 600.0
"""Seconds that one request may take."""
MAX_BYTES = 64 * 2**20
"""Of one file; the largest published table has 2 MB."""
CHUNK = 2**16
BUSY = (
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)
"""After which a request is repeated."""
GONE = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
BAD_RANGE = HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE


class DownloadError(Exception):
    """Says in one line why a file or table did not come."""


class CutError(Exception):
    """Says that a connection ended too early, or that the server is busy."""


class _OneHost(HTTPRedirectHandler):
    """Follows a redirect within the host only."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        if urlsplit(newurl)[:2] != urlsplit(req.full_url)[:2]:
            fp.close()
            raise DownloadError(f"{req.full_url} moved to {shown(newurl)}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


OPENER = build_opener(_OneHost)


@dataclass(kw_only=True)
class _Transfer:
    """A file that comes in one request or more.

    Attributes:
        address: Of the file.
        content: What came so far.
        version: The server's name of what came, or "" if it cannot go on from there.
    """

    address: str
    content: bytearray = field(default_factory=bytearray)
    version: str = ""

    def receive(self) -> None:
        """Request what is missing.

        Raises:
            CutError: Not all of it came; the next request goes on where the server can.
            DownloadError: It will not come, or the address is none.
        """
        resumption = {"Range": f"bytes={len(self.content)}-", "If-Range": self.version}
        headers = {"User-Agent": "extrap", **(resumption if self.content and self.version else {})}
        try:
            with OPENER.open(Request(self.address, headers=headers), timeout=TIMEOUT) as answer:
                self._read(answer)
        except HTTPError as error:
            error.close()
            if error.code == BAD_RANGE:
                self.content.clear()
            answered = f"{self.address} answers {error.code} {first_line(error.reason)}"
            if error.code in (*BUSY, BAD_RANGE):
                raise CutError(answered) from error
            moved = "; the source moved" if error.code in GONE else ""
            raise DownloadError(f"{answered}{moved}") from error
        except (ValueError, InvalidURL) as error:
            raise DownloadError(f"{self.address} is no address: {first_line(error)}") from error
        except URLError as error:
            raise CutError(f"{self.address} cannot be reached: {error.reason}") from error
        except (OSError, HTTPException) as error:
            raise CutError(f"{self.address} was cut off: {first_line(error)}") from error

    def _read(self, answer: HTTPResponse) -> None:
        if answer.status != HTTPStatus.PARTIAL_CONTENT:
            self.content.clear()
        elif not answer.headers.get("Content-Range", "").startswith(f"bytes {len(self.content)}-"):
            self.content.clear()
            raise CutError(f"{self.address} answers with another part of the file")
        tag = answer.headers.get("ETag", "")
        is_exact = tag and not tag.startswith("W/")
        self.version = tag if is_exact else answer.headers.get("Last-Modified", "")
        n_bytes = None if answer.length is None else len(self.content) + answer.length
        began = time.monotonic()
        while chunk := answer.read1(CHUNK):
            self.content += chunk
            if len(self.content) > MAX_BYTES:
                raise DownloadError(f"{self.address} is larger than {MAX_BYTES} bytes")
            if time.monotonic() - began > LONGEST:
                raise DownloadError(f"{self.address} takes longer than {LONGEST:.0f} s")
        if n_bytes is not None and len(self.content) < n_bytes:
            raise CutError(f"{self.address} was cut off at {len(self.content)} of {n_bytes} bytes")


def download(address: str) -> bytes:
    """Fetch the file at an HTTP address; a cut connection is resumed.

    Raises:
        DownloadError: It does not come.
    """
    transfer = _Transfer(address=address)
    for wait in (*WAITS, None):
        try:
            transfer.receive()
            break
        except CutError as error:
            if wait is None:
                raise DownloadError(first_line(error, most=300)) from error
            time.sleep(wait)
    if transfer.content.lstrip().startswith(b"<"):
        raise DownloadError(f"{address} answers with a web page")
    return bytes(transfer.content)
