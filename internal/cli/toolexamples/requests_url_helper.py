# /// script
# [tool.toolroom]
# read_only = true
# cases = [{name = "a query", arguments = {url = "https://example.com/a?x=1", params = {q = "two words"}}, assert = "value.url == 'https://example.com/a?x=1&q=two+words' && value.host == 'example.com'"}]
# ///
from typing import TypedDict
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit


class URL(TypedDict):
    url: str
    scheme: str
    host: str
    path: str
    params: dict[str, str]


def requests_url_helper(url: str, path: str = "", params: dict[str, str] = {}) -> URL:
    """Take a URL apart, and add a path and parameters. It does not open the URL.

    Args:
        url: The URL to start from.
        path: A path relative to the URL.
        params: Parameters to add to the query.
    """
    parts = urlsplit(urljoin(url, path) if path else url)
    if not parts.scheme or not parts.hostname:
        raise ValueError(f"{url!r} is no absolute URL")
    query = dict(parse_qsl(parts.query)) | params
    whole = urlunsplit(parts._replace(query=urlencode(query)))
    return {"url": whole, "scheme": parts.scheme, "host": parts.hostname, "path": parts.path, "params": query}
