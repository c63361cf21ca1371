# SPDX-License-Identifier: Apache-2.0
"""Object storage against real servers: HTTP with and without faults, TLS, a proxy, signatures checked by botocore, moto
as S3, and multi-storage-client. What is not installed is skipped by name."""

import concurrent.futures
import hashlib
import os
import random
import shutil
import ssl
import struct
import subprocess
import threading
import urllib.parse

import numpy
import pytest
from object_server import Fault, Server

from stoker import _core, errors
from stoker._megatron import storage
from stoker._megatron.indexed import IndexedDataset

SECRETS = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "very/secret+key", "session_token": "sometoken123"}
QUICK = {"retry_delay_ns": 1_000_000, "stall_timeout_ns": 1_000_000_000, "connect_timeout_ns": 1_000_000_000}
PART = 16 << 20


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    """No credentials, proxies or profiles but those of the test."""
    for name in list(os.environ):
        if name.startswith("AWS_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def content(size, seed=0):
    return random.Random(seed).randbytes(size)


def open_object(url, **options):
    try:
        return _core.ObjectFile(url, {**QUICK, **options})
    except errors.UnsupportedError as error:
        if "without libcurl" not in str(error):
            raise
        pytest.skip("stoker was built without libcurl")


def read(file, offset, size):
    out = bytearray(size)
    file.read(offset, out)
    return bytes(out)


# ------------------------------------------------------------------------------------------------------------- reading


def test_reads_what_the_server_has():
    body = content(100_000)
    with Server({"/a/x.bin": body}) as server:
        file = open_object(f"{server.url}/a/x.bin")
        assert file.size() == len(body)
        chance = random.Random(1)
        for _ in range(50):
            offset = chance.randrange(len(body))
            size = chance.randrange(len(body) - offset)
            assert read(file, offset, size) == body[offset : offset + size]
        with pytest.raises(errors.DataError, match="ends before byte 100001"):
            read(file, 99_999, 2)
        assert server.connections == 1  # one after the other over one connection


def test_a_long_read_is_many_requests_at_once():
    body = content(PART * 2 + 12345)
    with Server({"/x": body}) as server:
        file = open_object(f"{server.url}/x")
        server.gate = threading.Barrier(3, timeout=60)  # no part is answered before all three are asked for
        assert hashlib.sha256(read(file, 0, len(body))).digest() == hashlib.sha256(body).digest()
        assert sorted(server.ranges()) == sorted(
            [f"bytes=0-{PART - 1}", f"bytes={PART}-{2 * PART - 1}", f"bytes={2 * PART}-{len(body) - 1}"]
        )


def test_many_threads_read_one_object():
    body = content(50_000)
    with Server({"/x": body}) as server:
        file = open_object(f"{server.url}/x")

        def work(seed):
            chance = random.Random(seed)
            for _ in range(20):
                offset = chance.randrange(len(body) - 100)
                assert read(file, offset, 100) == body[offset : offset + 100]

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))


def test_a_forked_child_reads_too():
    body = content(1000)
    with Server({"/x": body}) as server:
        file = open_object(f"{server.url}/x")
        assert read(file, 0, 10) == body[:10]  # a connection is open now
        before = server.connections
        child = os.fork()
        if child == 0:
            good = read(file, 20, 10) == body[20:30] and read(file, 30, 10) == body[30:40]
            os._exit(0 if good else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert server.connections == before + 1
        assert read(file, 40, 10) == body[40:50]
        assert server.connections == before + 1  # the parent's is still good


def test_download_is_whole(tmp_path):
    body = content(PART + 99)
    with Server({"/x": body}) as server:
        file = open_object(f"{server.url}/x")
        file.download(tmp_path / "a" / "b" / "x")
        assert (tmp_path / "a" / "b" / "x").read_bytes() == body
        server.faults = [Fault(lambda handler: handler.say(500), times=100)]
        with pytest.raises(errors.PeerError):
            file.download(tmp_path / "a" / "y")
        assert os.listdir(tmp_path / "a") == ["b"]


# -------------------------------------------------------------------------------------------------------------- faults


def failing(act, times=1, **options):
    """Reads ten bytes of an object of a thousand through a fault."""
    body = content(1000)
    with Server({"/x": body}) as server:
        file = open_object(f"{server.url}/x", **options)
        server.faults = [Fault(act, times)]
        return read(file, 100, 10) == body[100:110], server.requests


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_again(status):
    good, requests = failing(lambda handler: handler.say(status), times=3)
    assert good and len(requests) == 4


@pytest.mark.parametrize("status, kind, says", [
    (403, errors.MachineError, "may not be read .HTTP 403"),
    (404, errors.DataError, "there is no .*HTTP 404"),
    (400, errors.MachineError, "says HTTP 400"),
])
def test_a_refusal_is_told_at_once(status, kind, says):
    body = content(1000)
    with Server({"/x": body}) as server:
        file = open_object(f"{server.url}/x")
        server.faults = [Fault(lambda handler: handler.say(status), times=9)]
        with pytest.raises(kind, match=says):
            read(file, 0, 10)
        assert len(server.requests) == 1


def test_a_server_that_stays_busy_is_given_up():
    with pytest.raises(errors.PeerError, match="tried 3 times.*HTTP 503"):
        failing(lambda handler: handler.say(503), times=100, retries=2)


def test_a_cut_connection_is_made_again():
    good, requests = failing(lambda handler: handler.cut(), times=2)
    assert good and len(requests) == 3


def test_a_cut_body_goes_on_where_it_ended():
    def half(handler):
        handler.say(206, [("ETag", '"1"'), ("Content-Range", "bytes 100-109/1000")], content(1000)[100:105], length=10)
        handler.cut()

    good, requests = failing(half)
    assert good
    assert [headers["range"] for _, _, headers in requests] == ["bytes=100-109", "bytes=105-109"]


def test_a_slow_server_is_given_up():
    release = threading.Event()
    body = content(1000)
    with Server({"/x": body}) as server:
        file = open_object(f"{server.url}/x", retries=-1)
        server.faults = [Fault(lambda handler: release.wait(60))]
        with pytest.raises(errors.PeerError) as caught:
            read(file, 0, 10)
        release.set()
        assert caught.value.status == "TIMEOUT"
        assert f"{server.url}/x" in str(caught.value)


def test_a_refused_connection_is_named():
    with Server({}) as server:
        url = f"{server.url}/x"
    file = open_object(url)
    with pytest.raises(errors.PeerError, match="tried 4 times") as caught:
        file.size()
    assert caught.value.status == "UNAVAILABLE" and url in str(caught.value)


def test_a_server_that_ignores_ranges_is_read_and_cut():
    body = content(1000)
    good, requests = failing(lambda handler: handler.say(200, [("ETag", '"1"')], body))
    assert good and len(requests) == 1


def test_a_large_object_without_ranges_is_refused():
    with pytest.raises(errors.UnsupportedError, match="does not send ranges"):
        with Server({}) as server:
            file = open_object(f"{server.url}/x")
            server.faults = [Fault(lambda handler: handler.say(200, body=b"x", length=10 << 30))]
            read(file, 5 << 30, 10)


@pytest.mark.parametrize("said", ["bytes 0-9/1000", "bytes 100-200/1000", "bytes 100-109", "nonsense", None])
def test_a_wrong_content_range_is_refused(said):
    headers = [("ETag", '"1"')] + ([("Content-Range", said)] if said else [])
    with pytest.raises(errors.PeerError) as caught:
        failing(lambda handler: handler.say(206, headers, bytes(10)))
    assert caught.value.status == "PROTOCOL"


@pytest.mark.parametrize("obeys", [True, False])
def test_an_object_that_changes_is_an_error(obeys):
    """A server that knows If-Match refuses; another sends the new bytes, whose tag tells."""
    body = content(1000)
    with Server({"/x": body}) as server:
        file = open_object(f"{server.url}/x")
        read(file, 0, 10)
        server.objects["/x"], server.tags["/x"] = content(1000, seed=1), 2
        if not obeys:
            reply = [("ETag", '"2"'), ("Content-Range", "bytes 10-19/1000")]
            server.faults = [Fault(lambda handler: handler.say(206, reply, bytes(10)))]
        with pytest.raises(errors.DataError, match="changed while it was read") as caught:
            read(file, 10, 10)
        assert caught.value.status == "MISMATCH"


def test_head_may_be_refused():
    body = content(1000)
    with Server({"/x": body}) as server:
        file = open_object(f"{server.url}/x")
        server.faults = [Fault(lambda handler: handler.say(403), 9, lambda handler: handler.command == "HEAD")]
        assert file.size() == 1000
        assert server.ranges() == ["bytes=0-0"]


# ------------------------------------------------------------------------------------------------------ TLS and proxies


@pytest.fixture
def certificate(tmp_path):
    if not shutil.which("openssl"):
        pytest.skip("no openssl program to make a certificate with")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", tmp_path / "key", "-out", tmp_path / "cert"],
                   check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    return context, str(tmp_path / "cert")


def test_certificates_are_verified(certificate):
    context, path = certificate
    with Server({"/x": b"0123456789"}, context=context) as server:
        with pytest.raises(errors.MachineError, match="certificate"):
            open_object(f"{server.url}/x").size()
        assert server.requests == []
        assert read(open_object(f"{server.url}/x", ca_bundle=path), 2, 3) == b"234"


def test_a_proxy_is_used_when_it_is_set():
    with Server({"http://store.invalid/x": b"0123456789", "/x": b"direct"}) as server:
        file = open_object("http://store.invalid/x", http_proxy=server.url)
        assert read(file, 2, 3) == b"234"
        file = open_object(f"{server.url}/x", http_proxy="http://127.0.0.1:1", no_proxy="127.0.0.1")
        assert read(file, 0, 6) == b"direct"


def test_the_library_reads_no_environment(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with Server({"/x": b"direct"}) as server:
        assert read(open_object(f"{server.url}/x"), 0, 6) == b"direct"


# ------------------------------------------------------------------------------------------------------------------- S3

KEYS = [
    "plain/x.bin", "a b", "a+b", "100%/x", "%41", "tilde~", "a//b", "/lead", "trail/", "ünï/日本", "q?x=1&y#z",
    "semi;colon,=@!$'()*", "a/../b", "./c", "quote\"<>\\^`{|}", ":",
]


def signature_check(access_key_id, secret, token):
    """A check of the server over botocore's signer: None if the request is signed as it signs."""
    auth = pytest.importorskip("botocore.auth", reason="botocore is not installed")
    awsrequest = pytest.importorskip("botocore.awsrequest")
    credentials = pytest.importorskip("botocore.credentials").Credentials(access_key_id, secret, token)

    def check(handler):
        given = handler.headers.get("Authorization", "")
        if not given.startswith("AWS4-HMAC-SHA256 "):
            return "AccessDenied"
        parts = dict(part.split("=", 1) for part in given.removeprefix("AWS4-HMAC-SHA256 ").split(","))
        signed = parts["SignedHeaders"].split(";")
        region = parts["Credential"].split("/")[2]
        request = awsrequest.AWSRequest(handler.command, f"http://{handler.headers['Host']}{handler.path}",
                                        headers={name: handler.headers[name] for name in signed})
        request.context["timestamp"] = handler.headers["x-amz-date"]
        request.context["payload_signing_enabled"] = True
        signer = auth.S3SigV4Auth(credentials, "s3", region)
        expected = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
        missing = {"host", "x-amz-date", "x-amz-content-sha256"} - set(signed)
        return None if expected == parts["Signature"] and not missing else "SignatureDoesNotMatch"

    return check


@pytest.mark.parametrize("style", [1, -1])
def test_requests_are_signed_as_botocore_does(style):
    objects = {key: content(50, seed=i) for i, key in enumerate(KEYS)}

    def name_of(path):
        path = path.removeprefix("/bucket") if style == 1 else path
        return urllib.parse.unquote(path.removeprefix("/"))

    with Server(objects, name_of) as server:
        server.check = signature_check(*SECRETS.values())
        endpoint = f"http://localhost:{server.server_port}"  # bucket.localhost is this host, too
        options = dict(SECRETS, region="eu-central-1", endpoint=endpoint, path_style=style)
        for key, body in objects.items():
            file = open_object(f"s3://bucket/{key}", **options)
            assert read(file, 10, 20) == body[10:30], key
            assert read(file, 30, 20) == body[30:50], key  # with If-Match, which is signed as well
            assert file.size() == 50, key
        with pytest.raises(errors.MachineError, match="SignatureDoesNotMatch"):
            read(open_object("s3://bucket/a b", **{**options, "secret_access_key": "other"}), 0, 1)
        with pytest.raises(errors.MachineError, match="AccessDenied.*not signed"):
            read(open_object("s3://bucket/a b", endpoint=endpoint, path_style=style), 0, 1)


def test_no_message_holds_a_credential():
    faults = [lambda handler: handler.say(403), lambda handler: handler.say(500), lambda handler: handler.cut(),
              lambda handler: handler.say(301, [("x-amz-bucket-region", "eu-west-1")]),
              lambda handler: handler.say(206, [("Content-Range", "x")])]
    texts = []
    with Server({}) as server:
        for act in faults:
            file = open_object("s3://bucket/k", endpoint=server.url, **SECRETS)
            server.faults = [Fault(act, 9, lambda handler: True)]
            for call in (file.size, lambda file=file: read(file, 0, 10)):
                with pytest.raises(errors.StokerError) as caught:
                    call()
                texts.append(f"{caught.value} {caught.value.message} {caught.value.context}")
        url = server.url.replace("http://", "http://me:password1@") + "/x?X-Amz-Signature=abcdef"
        server.faults = []
        with pytest.raises(errors.StokerError) as caught:
            open_object(url).size()
        texts.append(str(caught.value))
    for secret in [*SECRETS.values(), "password1", "abcdef"]:
        assert not any(secret in text for text in texts), secret


@pytest.fixture
def moto():
    server_module = pytest.importorskip("moto.server", reason="moto is not installed")
    boto3 = pytest.importorskip("boto3")
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="AKID",
                          aws_secret_access_key="secret")
    client.create_bucket(Bucket="bucket")
    yield endpoint, client
    server.stop()


def test_s3_by_moto(moto):
    endpoint, client = moto
    body = content(PART + 5000)
    client.put_object(Bucket="bucket", Key="some dir/x+y.bin", Body=body)
    options = {"endpoint": endpoint, "access_key_id": "AKID", "secret_access_key": "secret"}
    file = open_object("s3://bucket/some dir/x+y.bin", **options)
    assert file.size() == len(body)
    assert read(file, 0, len(body)) == body
    assert read(file, PART - 5, 10) == body[PART - 5 : PART + 5]
    client.put_object(Bucket="bucket", Key="some dir/x+y.bin", Body=content(len(body), seed=1))
    with pytest.raises(errors.DataError, match="changed while it was read"):
        read(file, 0, 10)
    with pytest.raises(errors.DataError, match="NoSuchKey"):
        open_object("s3://bucket/absent", **options).size()
    with pytest.raises(errors.DataError, match="NoSuchBucket"):
        open_object("s3://absent-bucket/k", **options).size()


# ------------------------------------------------------------------------------------------------------------- settings


def test_settings_come_from_the_mapping_that_is_given(tmp_path):
    (tmp_path / "credentials").write_text("[work]\naws_access_key_id = FILE\naws_secret_access_key = s\n")
    settings = _core.object_settings({"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"), "AWS_PROFILE": "work",
                                      "AWS_REGION": "eu-west-1", "STOKER_OBJECT_STALL_TIMEOUT_MS": "1500"})
    assert settings["access_key_id"] == "FILE" and settings["region"] == "eu-west-1"
    assert settings["stall_timeout_ns"] == 1_500_000_000 and "session_token" not in settings
    with pytest.raises(errors.CallerError, match="no secret access key"):
        _core.object_settings({"AWS_ACCESS_KEY_ID": "x"})

    class Broken(dict):
        def __getitem__(self, name):
            raise RuntimeError("no environment today")

    with pytest.raises(RuntimeError, match="today"):
        _core.object_settings(Broken())
    with pytest.raises(TypeError):
        _core.ObjectFile("s3://b/k", {"region": 5})


# ------------------------------------------------------------------------------------------------------------- datasets


@pytest.fixture
def corpus():
    """Documents, and the two files of a dataset of them as objects, written here byte by byte."""
    chance = numpy.random.default_rng(7)
    documents = [chance.integers(0, 60000, chance.integers(1, 200), dtype=numpy.uint16) for _ in range(100)]
    lengths = numpy.array([len(document) for document in documents], "<i4")
    offsets = numpy.concatenate([[0], numpy.cumsum(2 * lengths[:-1].astype("<i8"))]).astype("<i8")
    head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 100, 101)
    index = head + lengths.tobytes() + offsets.tobytes() + numpy.arange(101, dtype="<i8").tobytes()
    return documents, {"/bucket/data/x.idx": index, "/bucket/data/x.bin": numpy.concatenate(documents).tobytes()}


def open_dataset(prefix, folder, block_bytes=1000):
    open_object("http://h/x").close()  # skips without libcurl
    config = storage.ObjectStorageConfig(str(folder), block_bytes)
    return IndexedDataset(prefix, mmap=False, object_storage_config=config, retries=9, retry_delay_s=0.001)


@pytest.mark.parametrize("scheme", ["s3", "http"])
def test_a_dataset_is_read_from_storage(scheme, corpus, tmp_path, monkeypatch):
    documents, files = corpus
    with Server(files) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
        prefix = "s3://bucket/data/x" if scheme == "s3" else f"{server.url}/bucket/data/x"
        dataset = open_dataset(prefix, tmp_path / "cache")
        assert len(dataset) == len(documents)
        for i in [5, 99, 0, *range(100)]:
            assert numpy.array_equal(dataset[i], documents[i])
        assert numpy.array_equal(dataset.get(7, offset=0, length=1), documents[7][:1])
        copy = storage.get_index_cache_path(prefix + ".idx", dataset.object_storage_config)
        with open(copy, "rb") as file:
            assert file.read() == files["/bucket/data/x.idx"]
        assert IndexedDataset.exists(prefix)
        assert not IndexedDataset.exists(prefix + "y")
        server.faults = [Fault(lambda handler: handler.say(403), 99, lambda handler: True)]
        with pytest.raises(errors.MachineError, match="may not be read"):
            IndexedDataset.exists(prefix)


def test_the_environment_may_choose_the_blocks(corpus, tmp_path, monkeypatch):
    documents, files = corpus
    with Server(files) as server:
        monkeypatch.setenv("STOKER_OBJECT_BLOCK_BYTES", "300")
        dataset = open_dataset(f"{server.url}/bucket/data/x", tmp_path / "cache")
        before = len(server.ranges())
        assert numpy.array_equal(dataset.get(0, 0, 1), documents[0][:1])
        assert server.ranges()[before:] == ["bytes=0-299"]
        monkeypatch.setenv("STOKER_OBJECT_BLOCK_BYTES", "300k")
        with pytest.raises(errors.CallerError, match="expected a number of bytes"):
            open_dataset(f"{server.url}/bucket/data/x", tmp_path / "cache")


def test_faults_under_a_dataset_change_no_byte(corpus, tmp_path):
    documents, files = corpus
    with Server(files) as server:

        def every_third(handler):
            return len(server.requests) % 3 == 0

        def act(handler):
            return handler.say(503) if len(server.requests) % 2 else handler.cut()

        server.faults = [Fault(act, 10_000, every_third)]
        dataset = open_dataset(f"{server.url}/bucket/data/x", tmp_path / "cache", block_bytes=500)
        for i in range(100):
            assert numpy.array_equal(dataset[i], documents[i])
        assert server.faults[0].times < 10_000 - 10


def test_one_of_many_copies_the_index(corpus, tmp_path):
    documents, files = corpus
    with Server(files) as server:
        def work(_):
            return len(open_dataset(f"{server.url}/bucket/data/x", tmp_path / "cache"))

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            assert set(pool.map(work, range(6))) == {100}
        whole = f"bytes=0-{len(files['/bucket/data/x.idx']) - 1}"
        asked = [path for _, path, headers in server.requests if headers.get("range") == whole]
        assert asked == ["/bucket/data/x.idx"]


def test_msc_reads_through_its_client(corpus, tmp_path, monkeypatch):
    pytest.importorskip("multistorageclient", reason="multi-storage-client is not installed")
    documents, files = corpus
    for name, body in files.items():
        path = tmp_path / "store" / name.removeprefix("/bucket/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    (tmp_path / "msc.yaml").write_text("profiles:\n  local:\n    storage_provider:\n      type: file\n      options:\n"
                                       f"        base_path: {tmp_path / 'store'}\n")
    monkeypatch.setenv("MSC_CONFIG", str(tmp_path / "msc.yaml"))
    config = storage.ObjectStorageConfig(str(tmp_path / "cache"))
    dataset = IndexedDataset("msc://local/data/x", mmap=False, object_storage_config=config)
    for i in range(100):
        assert numpy.array_equal(dataset[i], documents[i])
    assert IndexedDataset.exists("msc://local/data/x")
    assert not IndexedDataset.exists("msc://local/data/absent")


def test_local_paths_of_indices():
    config = storage.ObjectStorageConfig("cache/dir")
    assert storage.get_index_cache_path("s3://b//k", config) == "cache/dir/b//k"
    assert storage.get_index_cache_path("msc://prof/a/b.idx", config) == "cache/dir/prof/a/b.idx"
    with pytest.raises(errors.CallerError):
        storage.get_index_cache_path("/a/b.idx", config)
    assert storage.S3Config is storage.ObjectStorageConfig
    assert config.bin_chunk_nbytes == 268435456
