"""What generated exchanges say, read by hand, and the ciphers against published vectors."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from tests.net import wire

from penstock.net import synth
from penstock.net.quic_keys import initial_keys
from penstock.net.synth import aes

TRAFFIC = synth.Traffic(rate=6_000, duration="2s", subscribers=30, ipv6=0.3, seed=9)
Talks = dict[tuple[tuple[bytes, int], tuple[bytes, int], int], list[wire.Packet]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[synth.Truth, Talks]:
    path = tmp_path_factory.mktemp("synth") / "a.pcap"
    truth = synth.write(path, TRAFFIC)
    talks: Talks = defaultdict(list)
    for packet in wire.packets(path):
        talks[packet.flow].append(packet)
    return truth, talks


def talks_of(made: tuple[synth.Truth, Talks], label: str) -> list[tuple[str, list[wire.Packet]]]:
    """Host and packets of the conversations of a protocol, as the truth names them."""
    truth, talks = made
    rows = truth.flows.filter(truth.flows["label"] == label)
    assert rows.height > 0
    found = []
    for row in rows.iter_rows(named=True):
        ends = []
        for end in ("src", "dst"):
            high, low = row[f"{end}_ip_high"], row[f"{end}_ip_low"]
            is_four = high == 0 and low >> 32 == 0xFFFF
            address = (
                (low & 0xFFFFFFFF).to_bytes(4, "big") if is_four else (high << 64 | low).to_bytes(16, "big")
            )
            ends.append((address, row[f"{end}_port"]))
        first, second = sorted(ends)
        found.append((row["host"], talks[first, second, row["protocol"]]))
    return found


def test_every_kind_of_exchange_is_there(made: tuple[synth.Truth, Talks]) -> None:
    labels = {"DNS", "HTTP", "TLS", "QUIC", "SIP", "RTP", "SMTP", "IMAP", "STUN"}
    assert set(made[0].flows["label"]) == labels
    assert set(made[0].applications["application"]) == set(synth.APPLICATIONS)


def test_dns_answers_have_the_questions_number_and_name(made: tuple[synth.Truth, Talks]) -> None:
    numbers = set()
    for host, (question, answer) in talks_of(made, "DNS"):
        wanted = b"".join(bytes([len(part)]) + part.encode() for part in host.split(".")) + b"\0"
        assert question.payload[12:].startswith(wanted)
        assert answer.payload[:2] == question.payload[:2]
        assert answer.payload[2] & 0x80
        assert answer.payload[12:].startswith(wanted)
        numbers.add(question.payload[:2])
    assert len(numbers) > 50


def test_http_names_its_host_and_lengths_fit(made: tuple[synth.Truth, Talks]) -> None:
    for host, packets in talks_of(made, "HTTP"):
        said = b"".join(p.payload for p in packets if p.ports[1] == 80)
        heard = b"".join(p.payload for p in packets if p.ports[0] == 80)
        assert f"\r\nHost: {host}\r\n".encode() in said
        while heard:
            head, _, rest = heard.partition(b"\r\n\r\n")
            found = re.search(rb"Content-Length: (\d+)", head)
            assert head.startswith(b"HTTP/1.1 200 OK")
            assert found is not None
            assert len(rest) >= int(found[1])
            heard = rest[int(found[1]) :]


def tls_records(stream: bytes) -> list[tuple[int, bytes]]:
    records = []
    while stream:
        size = int.from_bytes(stream[3:5], "big")
        assert stream[1] == 3
        assert len(stream) >= 5 + size
        records.append((stream[0], stream[5 : 5 + size]))
        stream = stream[5 + size :]
    return records


def extensions(hello: bytes) -> dict[int, bytes]:
    """The extensions of a client's hello without its record header."""
    assert hello[0] == 1
    assert int.from_bytes(hello[1:4], "big") == len(hello) - 4
    at = 4 + 2 + 32
    at += 1 + hello[at]
    at += 2 + int.from_bytes(hello[at : at + 2], "big")
    at += 1 + hello[at]
    assert int.from_bytes(hello[at : at + 2], "big") == len(hello) - at - 2
    at, found = at + 2, {}
    while at < len(hello):
        size = int.from_bytes(hello[at + 2 : at + 4], "big")
        found[int.from_bytes(hello[at : at + 2], "big")] = hello[at + 4 : at + 4 + size]
        at += 4 + size
    return found


def test_tls_hellos_name_host_and_protocols_and_records_are_whole(made: tuple[synth.Truth, Talks]) -> None:
    versions, randoms = set(), set()
    for host, packets in talks_of(made, "TLS"):
        said = tls_records(b"".join(p.payload for p in packets if p.ports[1] == 443))
        heard = tls_records(b"".join(p.payload for p in packets if p.ports[0] == 443))
        found = extensions(said[0][1])
        assert found[0][5:] == host.encode()
        assert found[16] == b"\0\x0c\x02h2\x08http/1.1"
        assert heard[0][0] == 22
        assert heard[0][1][0] == 2
        assert {kind for kind, _ in heard[-3:]} == {23}
        versions.add(43 in found)
        randoms.add(said[0][1][6:38])
        assert said[0][1][6:38] != heard[0][1][6:38]
    assert versions == {False, True}
    assert len(randoms) == len(talks_of(made, "TLS"))


def opened(datagram: bytes, destination: bytes, side: str) -> bytes:
    """The frames of the first Initial packet of a datagram; the tag is asserted."""
    keys = initial_keys(destination, side)
    at = 6 + datagram[5]
    at += 1 + datagram[at]
    assert datagram[at] == 0  # no token
    length = int.from_bytes(datagram[at + 1 : at + 3], "big") & 0x3FFF
    at += 3
    mask = aes.Aes128(keys.header).block(datagram[at + 4 : at + 20])
    first = datagram[0] ^ mask[0] & 0x0F
    size = (first & 3) + 1
    number = bytes(a ^ b for a, b in zip(datagram[at : at + size], mask[1:], strict=False))
    header = bytes([first]) + datagram[1:at] + number
    sealed = datagram[at + size : at + length]
    nonce = (int.from_bytes(keys.iv, "big") ^ int.from_bytes(number, "big")).to_bytes(12, "big")
    plain = aes.gcm_seal(keys.key, nonce, sealed[:-16], b"")[
        : len(sealed) - 16
    ]  # a stream cipher undoes itself
    assert aes.gcm_seal(keys.key, nonce, plain, header) == sealed
    return plain


def test_quic_initials_open_with_the_keys_of_version_1(made: tuple[synth.Truth, Talks]) -> None:
    seen = set()
    for host, packets in talks_of(made, "QUIC"):
        client, server = packets[0].payload, packets[1].payload
        if client in seen:
            continue
        seen.add(client)
        assert len(client) == 1200
        assert client[1:5] == b"\0\0\0\x01"
        destination = client[6 : 6 + client[5]]
        frames = opened(client, destination, "client")
        size = int.from_bytes(frames[2:4], "big") & 0x3FFF
        found = extensions(frames[4 : 4 + size])
        assert frames[:2] == b"\x06\0"
        assert found[0][5:] == host.encode()
        assert found[16] == b"\0\x03\x02h3"
        assert 57 in found
        answered = opened(server, destination, "server")
        assert answered[5:7] == b"\x06\0"
        assert answered[8] == 2 or answered[9] == 2
    assert len(seen) == 8


def test_calls_speak_on_the_ports_that_their_sip_names(made: tuple[synth.Truth, Talks]) -> None:
    spoken = {frozenset(p.way[1::2]) for _, packets in talks_of(made, "RTP") for p in packets}
    named = set()
    for _, packets in talks_of(made, "SIP"):
        bodies = b"".join(p.payload for p in packets)
        for p in packets:
            head, _, body = p.payload.partition(b"\r\n\r\n")
            found = re.search(rb"Content-Length: (\d+)", head)
            assert found is not None
            assert int(found[1]) == len(body)
        named.add(frozenset(int(port) for port in re.findall(rb"m=audio (\d+) RTP", bodies)))
        addresses = {address.decode() for address in re.findall(rb"c=IN IP4 ([\d.]+)\r\n", bodies)}
        ends = {".".join(str(b) for b in end) for end in (packets[0].src, packets[0].dst)}
        assert addresses == ends
    assert named == spoken


@pytest.mark.parametrize(("label", "step"), [("RTP", 160), ("STUN", 960)])
def test_sound_is_numbered_without_gap(made: tuple[synth.Truth, Talks], label: str, step: int) -> None:
    for _, packets in talks_of(made, label):
        ways: dict[tuple[bytes, int, bytes, int], list[bytes]] = defaultdict(list)
        for p in packets:
            if p.payload[0] == 0x80:
                ways[p.way].append(p.payload)
        assert len(ways) == 2
        for sound in ways.values():
            numbers = [int.from_bytes(s[2:4], "big") for s in sound]
            times = [int.from_bytes(s[4:8], "big") for s in sound]
            assert all((b - a) % 2**16 == 1 for a, b in pairwise(numbers))
            assert all((b - a) % 2**32 == step for a, b in pairwise(times))
            assert len({s[8:12] for s in sound}) == 1


def test_stun_answers_name_the_asker(made: tuple[synth.Truth, Talks]) -> None:
    for _, packets in talks_of(made, "STUN"):
        question, answer = packets[:2]
        assert question.payload[4:8] == bytes.fromhex("2112a442")
        assert answer.payload[8:20] == question.payload[8:20]
        for p in (question, answer):
            assert int.from_bytes(p.payload[2:4], "big") == len(p.payload) - 20
        mapped = answer.payload[26:32]
        cookie = bytes.fromhex("21122112a442")
        plain = bytes(a ^ b for a, b in zip(mapped, cookie, strict=True))
        assert plain == question.ports[0].to_bytes(2, "big") + question.src


@pytest.mark.parametrize(("label", "begin"), [("SMTP", b"220 "), ("IMAP", b"* OK ")])
def test_mail_begins_with_the_servers_greeting(
    made: tuple[synth.Truth, Talks], label: str, begin: bytes
) -> None:
    for _, packets in talks_of(made, label):
        spoken = [p.payload for p in packets if p.payload]
        assert spoken[0].startswith(begin)
        assert all(text.endswith(b"\r\n") for text in spoken)


def test_aes_and_gcm_give_the_published_answers() -> None:
    plain = bytes.fromhex("00112233445566778899aabbccddeeff")
    assert aes.Aes128(bytes(range(16))).block(plain).hex() == "69c4e0d86a7b0430d8cdb78070b4c55a"  # FIPS 197
    # McGrew and Viega, test cases 2 and 4.
    assert aes.gcm_seal(bytes(16), bytes(12), bytes(16), b"").hex() == (
        "0388dace60b6a392f328c2b971b2fe78ab6e47d42cec13bdf53a67b21257bddf"
    )
    text = bytes.fromhex(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
        "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
    )
    sealed = aes.gcm_seal(
        bytes.fromhex("feffe9928665731c6d6a8f9467308308"),
        bytes.fromhex("cafebabefacedbaddecaf888"),
        text,
        bytes.fromhex("feedfacedeadbeeffeedfacedeadbeefabaddad2"),
    )
    assert sealed[-16:].hex() == "5bc94fbc3221a5db94fae95ae7121a47"


def test_quic_keys_and_headers_are_those_of_rfc_9001() -> None:
    """Appendix A.1 and A.2."""
    destination = bytes.fromhex("8394c8f03e515708")
    keys = initial_keys(destination, "client")
    assert keys.key.hex() == "1f369613dd76d5467730efcbe3b1a22d"
    assert keys.iv.hex() == "fa044b2f42a3fd3b46fb255c"
    assert keys.header.hex() == "9f50449e04a0e810283a1e9933adedd2"
    server = initial_keys(destination, "server")
    assert server.key.hex() == "cf3a5331653c364c88f0f379b6067e37"
    sample = bytes.fromhex("d1b1c98dd7689fb8ec11d242b123dc9b")
    assert aes.Aes128(keys.header).block(sample)[:5].hex() == "437b9aec36"


def test_an_application_alone_is_alone(tmp_path: Path) -> None:
    mix = synth.Mix(dns=0, http=0, tls=0, quic=1, sip=0, mail=0, messenger=0)
    truth = synth.write(tmp_path / "a.pcap", dataclasses.replace(TRAFFIC, mix=mix))
    assert truth.applications["application"].to_list() == ["quic"]


def test_ndpi_recognises_every_flow(tmp_path: Path) -> None:
    """In tunnels, as nfstream takes some random payloads outside of them for tunnels of their own."""
    nfstream = pytest.importorskip("nfstream")
    truth = synth.write(tmp_path / "a.pcap", dataclasses.replace(TRAFFIC, tunnel="gtp"))
    streamer = nfstream.NFStreamer(str(tmp_path / "a.pcap"), decode_tunnels=True, n_meters=1)
    found = Counter[str]()
    for flow in streamer:
        if wire.GTP_C not in (flow.src_port, flow.dst_port):
            found[flow.application_name.partition(".")[0]] += 1
    assert dict(found) == dict(truth.flows["label"].value_counts().iter_rows())
