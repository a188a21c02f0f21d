"""The other side of the tests of languages: the official Python SDK.

peer.py ADDRESS serve QUEUE         an activity worker, until it is killed
peer.py ADDRESS call QUEUE THEIRS   a workflow here that calls activities of another worker
"""

import asyncio
import sys
import uuid
from dataclasses import dataclass
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker


@dataclass
class Order:
    item: str
    cents: int


@dataclass
class Receipt:
    text: str
    cents: int


@activity.defn(name="charge_in_python")
async def charge(order: Order) -> Receipt:
    if order.item == "piano":
        raise ApplicationError("too heavy", order.item, type="TooHeavy", non_retryable=True)
    return Receipt(f"{order.item}, charged in Python", order.cents)


@workflow.defn(name="CallsOutlast")
class CallsOutlast:
    @workflow.run
    async def run(self, queue: str) -> list[str]:
        said = []
        for item in ["tea", "piano"]:
            try:
                receipt = await workflow.execute_activity(
                    "charge_in_rust",
                    Order(item, 250),
                    result_type=Receipt,
                    task_queue=queue,
                    start_to_close_timeout=timedelta(seconds=10),
                    retry_policy=RetryPolicy(maximum_attempts=3),
                )
                said.append(f"{receipt.text}: {receipt.cents}")
            except ActivityError as error:
                cause = error.cause
                assert isinstance(cause, ApplicationError), cause
                said.append(f"{cause.type}: {cause.message}, retry {not cause.non_retryable}")
        return said


async def main() -> None:
    address, what, queue, *rest = sys.argv[1:]
    client = await Client.connect(address)
    if what == "serve":
        async with Worker(client, task_queue=queue, activities=[charge]):
            print("ready", flush=True)
            await asyncio.Event().wait()
    elif what == "call":
        runner = UnsandboxedWorkflowRunner()
        async with Worker(client, task_queue=queue, workflows=[CallsOutlast], workflow_runner=runner):
            said = await client.execute_workflow(
                CallsOutlast.run, rest[0], id=f"calls-outlast-{uuid.uuid4()}", task_queue=queue
            )
            print("\n".join(said))
    else:
        sys.exit(__doc__)


asyncio.run(main())
