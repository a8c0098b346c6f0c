"""Tests the reading of lines of ss: frozen ones of every kind, and those of real connections."""

import shutil
import socket
import subprocess
from typing import Any

import pytest

from ccmix.probes.sockets import COMMAND, Socket, parse
from ccmix.terms import CCAS

SO_MAX_PACING_RATE = 47  # asm-generic/socket.h; Python has no name for it

# ss -tinHO of iproute2 6.1 on Linux 6.18: a sender's bbr, and a paced cubic.
BBR = (
    "0      0               127.0.0.1:47460          127.0.0.1:39271 bbr wscale:10,10 rto:204 "
    "rtt:0.002/0.001 mss:49152 pmtu:65535 rcvmss:536 advmss:65483 cwnd:11 bytes_sent:30000 "
    "bytes_acked:30001 "
    "segs_out:3 segs_in:2 data_segs_out:1 "
    "bbr:(bw:196608000000bps,mrtt:0.002,pacing_gain:2.88672,cwnd_gain:2.88672) send "
    "2162688000000bps "
    "lastsnd:108 lastrcv:108 lastack:108 pacing_rate 2495171132000bps delivery_rate "
    "196608000000bps "
    "delivered:2 app_limited reordering:11 rcv_space:65495 rcv_ssthresh:65495 minrtt:0.002 "
    "snd_wnd:98304   "
)
PACED = (
    "0      0               127.0.0.1:35066          127.0.0.1:36077 cubic wscale:10,10 rto:204 "
    "rtt:0.002/0.001 mss:49152 pmtu:65535 rcvmss:536 advmss:65483 cwnd:10 bytes_sent:30000 "
    "bytes_acked:30001 "
    "segs_out:3 segs_in:2 data_segs_out:1 send 1966080000000bps lastsnd:108 lastrcv:108 "
    "lastack:108 "
    "pacing_rate 8000000bps/8000000bps delivery_rate 196608000000bps delivered:2 app_limited "
    "reordering:11 "
    "rcv_space:65495 rcv_ssthresh:65495 minrtt:0.002 snd_wnd:98304"
)
# With every field that misc/ss.c of iproute2 6.1 can print (tcp_stats_print), in its order.
EVERYTHING = (
    "12 345678 10.0.1.1:40000 10.0.3.2:5201 ts sack ecn ecnseen fastopen cubic wscale:14,14 "
    "rto:377 "
    "backoff:2 rtt:176.5/0.25 ato:40 qack:3 bidir mss:8948 pmtu:9000 rcvmss:536 advmss:8948 "
    "cwnd:1234 "
    "ssthresh:987 bytes_sent:3000000000 bytes_retrans:4000000 bytes_acked:2990000001 "
    "bytes_received:37 "
    "segs_out:340001 segs_in:170001 data_segs_out:340000 data_segs_in:1 send 500Mbps lastsnd:4 "
    "lastrcv:9000 "
    "lastack:8 pacing_rate 600.5Mbps delivery_rate 391234567bps delivered:339000 delivered_ce:5 "
    "app_limited "
    "busy:13004ms rwnd_limited:260ms(2.0%) sndbuf_limited:1300ms(10.0%) unacked:1200 "
    "retrans:3/12 lost:7 "
    "sacked:5 dsack_dups:1 fackets:9 reordering:30 reord_seen:4 rcv_rtt:1.5 rcv_space:89480 "
    "rcv_ssthresh:89480 notsent:65536 minrtt:88.5 rcv_ooopack:2 snd_wnd:900000"
)


def parse_line(line: str) -> Socket:
    [sample] = parse(line + "\n", CCAS)
    return sample


def test_every_field() -> None:
    assert parse_line(EVERYTHING) == Socket(
        local_address="10.0.1.1",
        local_port=40000,
        remote_address="10.0.3.2",
        remote_port=5201,
        recv_queue_bytes=12,
        send_queue_bytes=345678,
        cca="cubic",
        rto_s=0.377,
        rtt_s=0.1765,
        rttvar_s=0.00025,
        min_rtt_s=0.0885,
        mss_bytes=8948,
        cwnd_packets=1234,
        ssthresh_packets=987,
        bytes_sent=3_000_000_000,
        bytes_retransmitted=4_000_000,
        bytes_acked=2_990_000_001,
        bytes_received=37,
        segs_out=340_001,
        data_segs_out=340_000,
        retransmits=12,
        lost=7,
        unacked=1200,
        pacing_rate_bps=600.5e6,
        delivery_rate_bps=391_234_567.0,
        busy_s=13.004,
        receiver_window_limited_s=0.26,
        send_buffer_limited_s=1.3,
        bbr_bandwidth_bps=None,
        bbr_min_rtt_s=None,
        bbr_pacing_gain=None,
        bbr_cwnd_gain=None,
    )


def test_the_state_of_bbr() -> None:
    sample = parse_line(BBR)
    assert (sample.cca, sample.bbr_bandwidth_bps, sample.bbr_min_rtt_s) == ("bbr", 196608e6, 2e-6)
    assert (sample.bbr_pacing_gain, sample.bbr_cwnd_gain) == (2.88672, 2.88672)
    assert (sample.min_rtt_s, sample.pacing_rate_bps) == (2e-6, 2495171132000)


@pytest.mark.parametrize("cca", ["bbr2", "bbr3"])
def test_the_state_of_other_versions_of_bbr(cca: str) -> None:
    sample = parse_line(BBR.replace(" bbr ", f" {cca} ").replace("bbr:(", f"{cca}:("))
    assert (sample.cca, sample.bbr_bandwidth_bps) == (cca, 196608e6)


def test_a_bbr_without_gains() -> None:
    sample = parse_line(
        BBR.replace(",pacing_gain:2.88672,cwnd_gain:2.88672", "").replace(
            "bw:196608000000bps", "bw:94.5Kbps"
        )
    )
    assert (sample.bbr_bandwidth_bps, sample.bbr_min_rtt_s) == (94500, 2e-6)
    assert (sample.bbr_pacing_gain, sample.bbr_cwnd_gain) == (None, None)


def test_a_bbr_without_a_minimum_rtt() -> None:
    sample = parse_line(BBR.replace("mrtt:0.002", "mrtt:4.29497e+06").replace(" minrtt:0.002", ""))
    assert (sample.bbr_min_rtt_s, sample.min_rtt_s) == (None, None)


def test_the_pacing_rate_of_a_socket_with_a_maximum() -> None:
    assert parse_line(PACED).pacing_rate_bps == 8e6
    assert (
        parse_line(PACED.replace("8000000bps/8000000bps", "5.5Mbps/8Mbps")).pacing_rate_bps == 5.5e6
    )


def test_what_ss_leaves_out_is_zero_or_none() -> None:
    sample = parse_line("0 0 10.0.0.1:1 10.0.0.2:2 cubic")
    assert (
        sample.busy_s,
        sample.retransmits,
        sample.lost,
        sample.unacked,
        sample.cwnd_packets,
    ) == (0, 0, 0, 0, 0)
    assert (
        sample.receiver_window_limited_s,
        sample.send_buffer_limited_s,
        sample.bytes_retransmitted,
    ) == (0, 0, 0)
    assert (
        sample.rtt_s,
        sample.rttvar_s,
        sample.rto_s,
        sample.min_rtt_s,
        sample.ssthresh_packets,
    ) == (None,) * 5
    assert (sample.pacing_rate_bps, sample.delivery_rate_bps) == (None, None)


@pytest.mark.parametrize(
    ("text", "address", "port"),
    [
        ("127.0.0.1:5201", "127.0.0.1", 5201),
        ("127.0.0.1%lo:5201", "127.0.0.1%lo", 5201),
        ("[::1]:5201", "::1", 5201),
        ("[2001:db8::1:2]:65535", "2001:db8::1:2", 65535),
        ("[::ffff:10.0.0.1]:80", "::ffff:10.0.0.1", 80),
        ("[fe80::a1]%eth0:5201", "fe80::a1%eth0", 5201),
    ],
)
def test_addresses(text: str, address: str, port: int) -> None:
    sample = parse_line(f"0 0 {text} {text} cubic")
    assert (
        (sample.local_address, sample.local_port)
        == (sample.remote_address, sample.remote_port)
        == (address, port)
    )


@pytest.mark.parametrize(
    "flags", ["", "ts sack ", "ts usec_ts sack ", "ts sack ecn ecnseen fastopen "]
)
@pytest.mark.parametrize("cca", [*CCAS, "not-a-cca"])
def test_the_cca_is_a_word_of_its_own(flags: str, cca: str) -> None:
    sample = parse_line(
        f"0 0 10.0.0.1:1 10.0.0.2:2 {flags}{cca} wscale:7,7 rto:204 bidir send 1bps app_limited "
        "lost:3"
    )
    assert sample.cca == (cca if cca in CCAS else "")
    assert sample.lost == 3


def test_a_cca_s_own_state_is_not_taken_for_fields() -> None:
    text = EVERYTHING.replace("cubic", "dctcp").replace(
        " send ", " dctcp:(ce_state:1,alpha:512,ab_ecn:0,ab_tot:0) send "
    )
    sample = parse_line(text)
    assert (sample.cca, sample.bbr_bandwidth_bps, sample.pacing_rate_bps) == (
        "dctcp",
        None,
        600.5e6,
    )


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "ESTAB 0 0 10.0.0.1:1 10.0.0.2:2 cubic",
        "0 0 10.0.0.1 10.0.0.2 cubic",
        "0 0 10.0.0.1:1",
        "Recv-Q Send-Q Local Address:Port Peer Address:Port",
        "0 0 10.0.0.1:http 10.0.0.2:2 cubic",
        "0 0 10.0.0.1:1 10.0.0.2:2 cubic mss:many",
    ],
)
def test_a_line_that_ss_does_not_write(line: str) -> None:
    with pytest.raises(ValueError, match=r"ccmix can't read|invalid literal"):
        parse(f"{BBR}\n{line}\n", CCAS)


def test_several_lines_and_none() -> None:
    assert [sample.local_port for sample in parse(f"{BBR}\n\n{EVERYTHING}\n", CCAS)] == [
        47460,
        40000,
    ]
    assert parse("", CCAS) == []


def transfer(client: socket.socket, server: socket.socket) -> tuple[int, int]:
    """30000 bytes; returns the client's and the server's port."""
    client.sendall(bytes(30_000))
    left = 30_000
    while left:
        left -= len(server.recv(left))
    return client.getsockname()[1], server.getsockname()[1]


def seen(port: int) -> Socket:
    """Returns the socket of a local port, among all of this machine."""
    output = subprocess.run(COMMAND, capture_output=True, text=True, check=True).stdout
    [sample] = [sample for sample in parse(output, CCAS) if sample.local_port == port]
    return sample


@pytest.mark.skipif(not shutil.which("ss"), reason="ss is not installed: apt-get install iproute2")
@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize("cca", ["cubic", "reno", "bbr"])
def test_real_connections(address: str, cca: str, connection: Any) -> None:
    with connection(address, cca) as ends:
        client, server = transfer(*ends)
        sample = seen(client)
    assert (sample.cca, sample.local_address, sample.remote_address) == (cca, address, address)
    assert sample.remote_port == server
    assert sample.bytes_sent == 30_000
    assert sample.bytes_acked in (30_000, 30_001)  # with the SYN
    assert sample.data_segs_out >= 1
    assert sample.rtt_s
    assert sample.min_rtt_s
    assert 0 < sample.min_rtt_s <= sample.rtt_s + sample.rttvar_s < 1
    assert sample.cwnd_packets > 0
    assert sample.mss_bytes > 500
    assert sample.pacing_rate_bps
    assert sample.delivery_rate_bps
    assert sample.delivery_rate_bps > 1e6
    assert (sample.bbr_bandwidth_bps is not None) == (cca == "bbr")


@pytest.mark.skipif(not shutil.which("ss"), reason="ss is not installed: apt-get install iproute2")
def test_a_real_paced_connection_and_its_receiver(connection: Any) -> None:
    with connection("127.0.0.1", "reno") as ends:
        ends[0].setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, 1_000_000)
        client, server = transfer(*ends)
        sample = seen(client)
        [receiver] = [
            candidate
            for candidate in parse(
                subprocess.run(COMMAND, capture_output=True, text=True, check=True).stdout, CCAS
            )
            if candidate.local_port == server
        ]
    assert sample.pacing_rate_bps == 8_000_000
    assert (receiver.bytes_received, receiver.bytes_sent, receiver.remote_port) == (
        30_000,
        0,
        client,
    )
