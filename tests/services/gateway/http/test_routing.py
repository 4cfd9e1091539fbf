"""Paths to handlers."""

import pytest
from aiohttp import web

from services.gateway.http.call import Call
from services.gateway.http.errors import HttpProblem
from services.gateway.http.routing import Route, find_route


async def nothing(call: Call) -> web.StreamResponse:
    raise NotImplementedError


GET, POST, TAIL = (
    Route("GET", "/a", nothing),
    Route("POST", "/a", nothing),
    Route("GET", "/a/*", nothing),
)
ROUTES = (GET, POST, TAIL)


@pytest.mark.parametrize(
    ("method", "path", "route", "tail"),
    [
        ("GET", "/a", GET, ""),
        ("HEAD", "/a", GET, ""),
        ("POST", "/a", POST, ""),
        ("GET", "//a///", GET, ""),
        ("GET", "/a/b", TAIL, "b"),
        ("GET", "//a//b/c", TAIL, "b/c"),
    ],
)
def test_found(method: str, path: str, route: Route, tail: str) -> None:
    assert find_route(ROUTES, method, path) == (route, tail)


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/", 404, None),
        ("GET", "/ab", 404, None),
        ("PUT", "/a", 405, "GET, POST"),
        ("POST", "/a/b", 405, "GET"),
    ],
)
def test_not_found(method: str, path: str, status: int, allow: str | None) -> None:
    with pytest.raises(HttpProblem) as caught:
        find_route(ROUTES, method, path)
    assert (caught.value.status, caught.value.allow) == (status, allow)
