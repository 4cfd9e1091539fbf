"""`trace`: what the gateway remembers of one recent request."""

import json

import aiohttp

from deploy.local.errors import DeployError

ASK_LIMIT_S = 5.0


async def request_trace(url: str, request_id: str) -> str:
    """As indented JSON. The id is that of the answer, or its X-Request-Id."""
    timeout = aiohttp.ClientTimeout(total=ASK_LIMIT_S)
    try:
        async with (
            aiohttp.ClientSession(url, timeout=timeout) as session,
            session.get(f"/debug/requests/{request_id}") as reply,
        ):
            if reply.status == 404:
                raise DeployError(f"the gateway remembers no request {request_id}")
            if reply.status != 200:
                raise DeployError(f"the gateway answered {reply.status}: {await reply.text()}")
            return json.dumps(await reply.json(), indent=2)
    except (aiohttp.ClientError, TimeoutError) as error:
        raise DeployError(f"the gateway at {url} does not answer: {error}") from None
