"""Rollouts over servers: what is asked and taken over, and what is refused."""

import threading
import time

import pytest
import serving

from progpo.artifacts import read_manifest
from progpo.errors import ProgpoError
from progpo.policy.backends import endpoint
from progpo.policy.backends.base import Turn
from progpo.policy.checkpoint import Policy, load_policy


@pytest.fixture(scope="module")
def policy(made) -> Policy:
    return load_policy(made / "policy")


@pytest.fixture
def server(policy, monkeypatch) -> serving.Server:
    monkeypatch.setattr(endpoint, "PAUSES", (0.01, 0.01))
    return serving.Server(policy.model, policy.fingerprint)


def over(*urls: str, **more) -> dict:
    return {"backend": "endpoint", "endpoint": {"urls": list(urls), **more}}


def test_a_shard_holds_what_the_server_sampled(server, sample, policy):
    with serving.serving(server) as url:
        shard = sample("shard", **over(url))
    found = serving.trajectories(shard)
    asked = [body for body in server.asked if body["max_tokens"] > 1]
    assert sorted(body["prompt"] for body in asked) == sorted(serving.prompts(found))
    assert {body["seed"] for body in asked} == {
        Turn((5, 1, item.group, item.trajectory), step, []).seed for item in found for step in range(len(item.steps))
    }
    assert {(body["model"], body["temperature"]) for body in asked} == {(policy.fingerprint, 0.7)}
    assert serving.deviation(policy.model, found, 0.7) < 1e-4
    facts = read_manifest(shard).facts
    assert (facts["backend"], facts["servers"], facts["fingerprint"]) == ("endpoint", [url], policy.fingerprint)


def test_a_second_run_draws_the_same(server, sample):
    with serving.serving(server) as url:
        shards = [sample(name, **over(url)) for name in "ab"]
    assert serving.tokens(shards[0]) == serving.tokens(shards[1])


def test_servers_share_the_episodes_and_the_policy_alone_counts(server, sample, policy):
    other = serving.Server(policy.model, policy.fingerprint)
    stranger = serving.Server(policy.model, "another")
    with serving.serving(server) as one, serving.serving(other) as two, serving.serving(stranger) as three:
        shard = sample("shard", **over(one, three, f"{two}/v1/"))
    assert server.asked
    assert other.asked
    assert not stranger.asked
    asked = [body["prompt"] for item in (server, other) for body in item.asked if body["max_tokens"] > 1]
    assert sorted(asked) == sorted(serving.prompts(serving.trajectories(shard)))


def test_another_policy_is_refused(server, sample, tmp_path, policy):
    server.name = "yesterdays"
    with (
        serving.serving(server) as url,
        pytest.raises(
            ProgpoError, match=rf"under its fingerprint, {policy.fingerprint} .*serves yesterdays.*progpo serve"
        ),
    ):
        sample("shard", **over(url))
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_not_there_is_named(sample, tmp_path):
    with pytest.raises(ProgpoError, match=r"http://127.0.0.1:9: not reached"):
        sample("shard", **over("http://127.0.0.1:9"))
    assert list(tmp_path.iterdir()) == []


def test_the_policy_is_waited_for(server, sample, policy, monkeypatch):
    monkeypatch.setattr(endpoint, "LOOK_EVERY", 0.05)
    server.name = None

    def load():
        time.sleep(0.3)
        server.name = policy.fingerprint

    loading = threading.Thread(target=load)
    with serving.serving(server) as url:
        loading.start()
        assert sample("shard", **over(url, wait=60)).exists()
    loading.join()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        ({"without": ("token_ids",)}, "returns no token ids"),
        ({"without": ("logprobs",)}, "returns no log-probability for each token"),
        ({"raw": True}, r"at temperature 1, not at the sampling temperature \(0.7\).*processed_logprobs"),
        ({"limit": 100}, "reads 100 tokens at most"),
        ({"key": "secret"}, "status 401: Unauthorized; set PROGPO_ENDPOINT_KEY"),
        ({"failures": 99}, "no answer .*too busy.*tried 3 times"),
    ],
)
def test_what_cannot_be_recorded_is_refused_before_anything_is_played(server, sample, tmp_path, spoil, message):
    for name, value in spoil.items():
        setattr(server, name, value)
    with serving.serving(server) as url, pytest.raises(ProgpoError, match=message):
        sample("shard", **over(url))
    assert all(body["max_tokens"] == 1 for body in server.asked)
    assert list(tmp_path.iterdir()) == []


def test_at_temperature_1_either_kind_of_log_probability_is_right(server, sample, policy):
    server.raw = True
    with serving.serving(server) as url:
        shard = sample("shard", temperature=1.0, **over(url))
    assert serving.deviation(policy.model, serving.trajectories(shard), 1.0) < 1e-4


def test_a_response_without_its_end_token_is_refused(server, sample, tmp_path):
    server.trims = True
    with serving.serving(server) as url, pytest.raises(ProgpoError, match="leaves out the token that ended"):
        sample("shard", **over(url))
    assert not (tmp_path / "shard.parquet").exists()


def test_a_busy_server_is_asked_again_and_a_key_is_sent(server, sample, monkeypatch):
    monkeypatch.setenv(endpoint.KEY, "secret")
    server.key, server.failures = "secret", 2
    with serving.serving(server) as url:
        assert sample("shard", **over(url)).exists()
    assert server.failures == 0
