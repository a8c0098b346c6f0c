"""Outputs of real tools on a machine with virtio and Linux 6.18, and in namespaces of the lab's
kernel. Those of DTNs are written in the same formats.
"""

VIRTIO_LINK = (
    '[{"ifindex":4,"ifname":"eth0","flags":["BROADCAST","MULTICAST","UP","LOWER_UP"],"mtu":1400,"qdisc":"pfifo_fast",'
    '"operstate":"UP","linkmode":"DEFAULT","group":"default","txqlen":1000,"link_type":"ether",'
    '"address":"02:fc:00:00:00:01","broadcast":"ff:ff:ff:ff:ff:ff"}]'
)
VIRTIO_DRIVER = """\
driver: virtio_net
version: 1.0.0
firmware-version:
expansion-rom-version:
bus-info: 0000:00:03.0
supports-statistics: yes
"""
DTN_LINK = VIRTIO_LINK.replace('"mtu":1400', '"mtu":9000').replace("eth0", "ens1f0")
DTN_DRIVER = VIRTIO_DRIVER.replace("virtio_net", "mlx5_core")
# ethtool 5.x of a NIC whose rings are smaller than they could be
RINGS_SMALL = """\
Ring parameters for ens1f0:
Pre-set maximums:
RX:\t\t8192
RX Mini:\t0
RX Jumbo:\t0
TX:\t\t8192
Current hardware settings:
RX:\t\t1024
RX Mini:\t0
RX Jumbo:\t0
TX:\t\t8192

"""
# ethtool 6.1
RINGS_VIRTIO = """\
Ring parameters for eth0:
Pre-set maximums:
RX:\t\t256
RX Mini:\tn/a
RX Jumbo:\tn/a
TX:\t\t256
Current hardware settings:
RX:\t\t256
RX Mini:\tn/a
RX Jumbo:\tn/a
TX:\t\t256
RX Buf Len:\t\tn/a
CQE Size:\t\tn/a
TX Push:\toff
TCP data split:\tn/a
"""
OFFLOADS_VIRTIO = """\
Features for eth0:
rx-checksumming: on [fixed]
tx-checksumming: on
\ttx-checksum-ipv4: off [fixed]
scatter-gather: on
\ttx-scatter-gather: on
tcp-segmentation-offload: on
\ttx-tcp-segmentation: on
\ttx-tcp6-segmentation: on
generic-segmentation-offload: on
generic-receive-offload: on
large-receive-offload: off [fixed]
rx-vlan-offload: off [fixed]
tx-udp-segmentation: off [fixed]
"""
FQ = (
    '[{"kind":"fq","handle":"8001:","root":true,"refcnt":2,"options":{"limit":10000,"flow_limit":100,"buckets":1024,'
    '"orphan_mask":1023,"quantum":3028,"initial_quantum":15140,"maxrate":125000000,"low_rate_threshold":68750,'
    '"refill_delay":40000,"timer_slack":10000,"horizon":10000000,"horizon_drop":null},"bytes":336,"packets":4,"drops":0,'
    '"overlimits":0,"requeues":0,"backlog":0,"qlen":0,"flows":2,"inactive":2,"throttled":0,"gc":0,"highprio":0,'
    '"throttled":0}]\n'
)
MQ_OF_FQ = (
    '[{"kind":"mq","handle":"1:","root":true,"options":{},"bytes":184962,"packets":141,"drops":0,"overlimits":0,'
    '"requeues":0,"backlog":0,"qlen":0},{"kind":"fq","handle":"8001:","parent":"1:1","options":{"limit":10000,'
    '"flow_limit":100,"buckets":1024},"bytes":42,"packets":1,"drops":0,"flows":0,"throttled":0},{"kind":"fq",'
    '"handle":"8002:","parent":"1:2","options":{"limit":10000,"flow_limit":100,"buckets":1024},"bytes":184920,'
    '"packets":140,"drops":0,"flows":0,"throttled":0}]'
)
MQ_OF_THE_USER = (
    '[{"kind":"mq","handle":"8004:","root":true,"options":{},"bytes":0,"packets":0,"drops":0},{"kind":"pfifo_fast",'
    '"handle":"0:","parent":"8004:2","options":{"bands":3},"drops":0},{"kind":"pfifo_fast","handle":"0:",'
    '"parent":"8004:1","options":{"bands":3},"drops":0}]'
)
PFIFO_FAST = (
    '[{"kind":"pfifo_fast","handle":"0:","root":true,"refcnt":2,"options":{"bands":3,"priomap":[1,2,2,2,1,2,0,0,1,1,1,1,'
    '1,1,1,1],"multiqueue":false},"bytes":7999398,"packets":97551,"drops":0,"overlimits":0,"requeues":0,"backlog":0}]'
)
NOQUEUE = '[{"kind":"noqueue","handle":"0:","root":true,"refcnt":2,"options":{},"bytes":0,"packets":0,"drops":0}]'
HTB = '[{"kind":"htb","handle":"1:","root":true,"refcnt":2,"options":{"r2q":10,"default":"0x10"},"drops":0}]'
PING = """\
PING 10.9.0.2 (10.9.0.2) 56(84) bytes of data.
64 bytes from 10.9.0.2: icmp_seq=1 ttl=64 time=88.4 ms

--- 10.9.0.2 ping statistics ---
3 packets transmitted, 3 received, 0% packet loss, time 402ms
rtt min/avg/max/mdev = 88.123/88.301/88.402/0.120 ms
"""
PING_SILENT = """\
PING 10.9.0.9 (10.9.0.9) 56(84) bytes of data.

--- 10.9.0.9 ping statistics ---
3 packets transmitted, 0 received, 100% packet loss, time 2045ms

"""
PING_TOO_LONG = """\
PING 10.9.0.2 (10.9.0.2) 4000(4028) bytes of data.
ping: local error: message too long, mtu=1500

--- 10.9.0.2 ping statistics ---
1 packets transmitted, 0 received, +1 errors, 100% packet loss, time 0ms

"""
PING_FRAG_NEEDED = """\
PING 10.9.1.2 (10.9.1.2) 8972(9000) bytes of data.
From 10.9.0.254 icmp_seq=1 Frag needed and DF set (mtu = 1500)

--- 10.9.1.2 ping statistics ---
1 packets transmitted, 0 received, +1 errors, 100% packet loss, time 0ms

"""
ROUTE = '[{"dst":"1.1.1.1","gateway":"192.0.2.1","dev":"eth0","prefsrc":"192.0.2.2","flags":[],"uid":0,"cache":[]}]'
ADDRESSES = (
    '[{"ifindex":1,"ifname":"lo","addr_info":[{"family":"inet","local":"127.0.0.1"}]},{"ifindex":4,"ifname":"eth0",'
    '"flags":["UP","LOWER_UP"],"mtu":1400,"addr_info":[{"family":"inet","local":"192.0.2.2","prefixlen":24},'
    '{"family":"inet6","local":"fd00::2","prefixlen":64}]}]'
)
AHOSTS = """\
2001:400:501:1150::3 STREAM dtn.example.org
2001:400:501:1150::3 DGRAM
192.0.2.7       STREAM
192.0.2.7       DGRAM
"""
DF = """\
Filesystem     1024-blocks     Used Available Capacity Mounted on
/dev/vda         264212084 19804208  75697076      21% /
"""
CONFIG_WITH_FQ = """\
CONFIG_NET_SCH_HTB=y
CONFIG_NET_SCH_TBF=m
CONFIG_NET_SCH_NETEM=m
CONFIG_NET_SCH_FQ=y
CONFIG_NET_SCH_FQ_CODEL=y
module sch_netem
"""
CONFIG_WITHOUT_FQ = """\
# CONFIG_NET_SCH_FQ_CODEL is not set
# CONFIG_NET_SCH_FQ is not set
# CONFIG_NET_SCH_NETEM is not set
CONFIG_NET_SCH_TBF=y
tbf_enqueue
"""
STATUS_ROOT = """\
Name:\tcat
CapInh:\t0000000000000000
CapPrm:\t000001ffffffffff
CapEff:\t000001ffffffffff
CapBnd:\t000001ffffffffff
"""
# A container of Docker as it comes: no NET_ADMIN, no SYS_ADMIN, but NET_RAW
STATUS_DOCKER = STATUS_ROOT.replace("000001ffffffffff", "00000000a80425fb")
MOUNTS_DOCKER = """\
overlay / overlay rw,relatime 0 0
proc /proc proc rw,nosuid,nodev,noexec,relatime 0 0
sysfs /sys sysfs ro,nosuid,nodev,noexec,relatime 0 0
proc /proc/sys proc ro,nosuid,nodev,noexec,relatime 0 0
"""
MOUNTS = """\
proc /proc proc rw,nosuid,nodev,noexec,relatime 0 0
sysfs /sys sysfs rw,nosuid,nodev,noexec,relatime 0 0
"""
UNIX = """\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 20513 /run/dbus/system_bus_socket
0000000000000000: 00000002 00000000 00010000 0001 01 30124 @ccmix-host
"""
PROGRAMS = (
    "tc\t/usr/sbin/tc\ttc utility, iproute2-6.1.0, libbpf 1.1.2\n"
    "iperf3\t/usr/bin/iperf3\tiperf 3.12 (cJSON 1.7.15)\n"
    "zstd\t\t\n"
    "getent\t/usr/bin/getent\t\n"
)
