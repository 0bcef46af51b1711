"""What the built-in engine knows: names, categories, ports, opening bytes, hosts of well-known services."""

from __future__ import annotations

NAMES: tuple[tuple[str, str], ...] = (
    ("Unknown", "Unspecified"), ("TLS", "Web"), ("HTTP", "Web"), ("DNS", "Network"), ("QUIC", "Web"),
    ("SSH", "RemoteAccess"), ("SIP", "VoIP"), ("RTP", "Media"), ("RTCP", "VoIP"), ("STUN", "Network"),
    ("SMTP", "Email"), ("POP3", "Email"), ("IMAP", "Email"), ("FTP_CONTROL", "Download"),
    ("BitTorrent", "Download"), ("RTSP", "Media"), ("DTLS", "Web"), ("MDNS", "Network"), ("LLMNR", "Network"),
    ("NetBIOS", "System"), ("NTP", "System"), ("DHCP", "Network"), ("DHCPV6", "Network"), ("SSDP", "System"),
    ("SNMP", "Network"), ("TFTP", "DataTransfer"), ("Syslog", "System"), ("IPSec", "VPN"), ("GTP", "Network"),
    ("Radius", "Network"), ("WireGuard", "VPN"), ("OpenVPN", "VPN"), ("MySQL", "Database"),
    ("PostgreSQL", "Database"), ("Redis", "Database"), ("MongoDB", "Database"), ("MQTT", "RPC"),
    ("AMQP", "RPC"),
    ("RDP", "RemoteAccess"), ("SMBv1", "System"), ("SMBv23", "System"), ("Telnet", "RemoteAccess"),
    ("Jabber", "Web"), ("IRC", "Chat"), ("VNC", "RemoteAccess"), ("BGP", "Network"), ("LDAP", "System"),
    ("Git", "Collaborative"), ("ICMP", "Network"), ("ICMPV6", "Network"), ("IGMP", "Network"),
    ("GRE", "Network"),
    ("SCTP", "Network"), ("OSPF", "Network"), ("VRRP", "Network"), ("PIM", "Network"), ("EGP", "Network"),
    ("IP_in_IP", "Network"), ("COAP", "RPC"), ("Kerberos", "Network"), ("HTTP_Proxy", "Web"),
    ("SOCKS", "Web"), ("DoH_DoT", "Network"), ("NFS", "DataTransfer"), ("RSYNC", "DataTransfer"),
    ("Modbus", "IoT-Scada"), ("ZeroMQ", "RPC"), ("Memcached", "Network"), ("SMTPS", "Email"),
    ("IMAPS", "Email"),
    ("POPS", "Email"),
)  # fmt: skip
"""Applications and their categories in nDPI's words; a code is a place in this list."""
CODE = {name: code for code, (name, _) in enumerate(NAMES)}

TCP, UDP = 6, 17
CLIENT, SERVER, EITHER = 0, 1, 2
SIGNATURES: tuple[tuple[str, int, int, bytes], ...] = (
    ("SSH", TCP, EITHER, b"SSH-"),
    ("HTTP", TCP, SERVER, b"HTTP/1."),
    ("RTSP", TCP, EITHER, b"RTSP/1.0"),
    ("SIP", 0, EITHER, b"SIP/2.0 "), ("SIP", 0, EITHER, b"INVITE sip:"), ("SIP", 0, EITHER, b"REGISTER sip:"),
    ("SIP", 0, EITHER, b"OPTIONS sip:"), ("SIP", 0, EITHER, b"SUBSCRIBE sip:"),
    ("SIP", 0, EITHER, b"NOTIFY sip:"),
    ("SIP", 0, EITHER, b"ACK sip:"), ("SIP", 0, EITHER, b"BYE sip:"), ("SIP", 0, EITHER, b"MESSAGE sip:"),
    ("SIP", 0, EITHER, b"PUBLISH sip:"), ("SIP", 0, EITHER, b"CANCEL sip:"), ("SIP", 0, EITHER, b"INFO sip:"),
    ("SMTP", TCP, CLIENT, b"EHLO "), ("SMTP", TCP, CLIENT, b"HELO "),
    ("FTP_CONTROL", TCP, SERVER, b"220 ProFTPD"), ("FTP_CONTROL", TCP, SERVER, b"220 (vsFTPd"),
    ("FTP_CONTROL", TCP, CLIENT, b"USER "),
    ("POP3", TCP, SERVER, b"+OK "), ("IMAP", TCP, SERVER, b"* OK "),
    ("BitTorrent", TCP, EITHER, b"\x13BitTorrent protocol"),
    ("BitTorrent", UDP, EITHER, b"d1:ad2:id20:"), ("BitTorrent", UDP, EITHER, b"d1:rd2:id20:"),
    ("RTSP", TCP, CLIENT, b"OPTIONS rtsp://"), ("RTSP", TCP, CLIENT, b"DESCRIBE rtsp://"),
    ("SSDP", UDP, EITHER, b"M-SEARCH * HTTP/1.1"), ("SSDP", UDP, EITHER, b"NOTIFY * HTTP/1.1"),
    ("SMBv1", TCP, EITHER, b"\0\0??\xffSMB"), ("SMBv23", TCP, EITHER, b"\0\0??\xfeSMB"),
    ("AMQP", TCP, CLIENT, b"AMQP\0"), ("MQTT", TCP, CLIENT, b"\x10?\0\x04MQTT"),
    ("MQTT", TCP, CLIENT, b"\x10?\0\x06MQIsdp"), ("RDP", TCP, CLIENT, b"\x03\0\0??\xe0\0\0"),
    ("VNC", TCP, SERVER, b"RFB 00"), ("BGP", TCP, EITHER, b"\xff" * 16), ("Git", TCP, CLIENT, b"00??git-"),
    ("Jabber", TCP, CLIENT, b"<?xml"), ("Jabber", TCP, CLIENT, b"<stream:stream"),
    ("Telnet", TCP, EITHER, b"\xff\xfb"), ("Telnet", TCP, EITHER, b"\xff\xfd"),
    ("Redis", TCP, CLIENT, b"*1\r\n$"), ("Redis", TCP, CLIENT, b"*2\r\n$"),
    ("Redis", TCP, CLIENT, b"*3\r\n$"),
    ("PostgreSQL", TCP, CLIENT, b"\0\0??\0\x03\0\0user"),
    ("PostgreSQL", TCP, CLIENT, b"\0\0\0\x08\x04\xd2\x16/"),
    ("RSYNC", TCP, EITHER, b"@RSYNCD:"), ("ZeroMQ", TCP, EITHER, b"\xff\0\0\0\0\0\0\0\x01\x7f"),
    ("DTLS", UDP, EITHER, b"\x16\xfe\xff"),
    ("DTLS", UDP, EITHER, b"\x16\xfe\xfd"),
)  # fmt: skip
"""Application, transport (0: any), who says it, and the first bytes of what is said; ``?`` is any byte."""

PORTS: dict[int, dict[int, str]] = {
    TCP: {
        20: "FTP_CONTROL", 21: "FTP_CONTROL", 22: "SSH", 23: "Telnet", 25: "SMTP", 53: "DNS", 80: "HTTP",
        88: "Kerberos",
        110: "POP3", 139: "NetBIOS", 143: "IMAP", 179: "BGP", 389: "LDAP", 443: "TLS", 445: "SMBv23",
        465: "SMTPS",
        502: "Modbus", 554: "RTSP", 587: "SMTP", 853: "DoH_DoT", 873: "RSYNC", 993: "IMAPS", 995: "POPS",
        1080: "SOCKS",
        1883: "MQTT", 2049: "NFS", 3128: "HTTP_Proxy", 3306: "MySQL", 3389: "RDP", 5060: "SIP",
        5222: "Jabber",
        5432: "PostgreSQL", 5672: "AMQP", 5900: "VNC", 6379: "Redis", 6667: "IRC", 8080: "HTTP_Proxy",
        9418: "Git", 11211: "Memcached", 27017: "MongoDB",
    },
    UDP: {
        53: "DNS", 67: "DHCP", 68: "DHCP", 69: "TFTP", 88: "Kerberos", 123: "NTP", 137: "NetBIOS",
        138: "NetBIOS",
        161: "SNMP", 162: "SNMP", 443: "QUIC", 500: "IPSec", 514: "Syslog", 546: "DHCPV6", 547: "DHCPV6",
        1194: "OpenVPN",
        1812: "Radius", 1813: "Radius", 1900: "SSDP", 2123: "GTP", 2152: "GTP", 3478: "STUN",
        4500: "IPSec", 5060: "SIP",
        5353: "MDNS", 5355: "LLMNR", 5683: "COAP", 51820: "WireGuard",
    },
}  # fmt: skip
PROTOCOLS = {
    1: "ICMP", 2: "IGMP", 4: "IP_in_IP", 8: "EGP", 47: "GRE", 50: "IPSec", 51: "IPSec", 58: "ICMPV6",
    89: "OSPF",
    103: "PIM", 112: "VRRP", 132: "SCTP",
}  # fmt: skip

SERVICES: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("facebook.com", "fbcdn.net", "facebook.net", "fbsbx.com"), ("Facebook", "SocialNetwork")
    ),
    **dict.fromkeys(("instagram.com", "cdninstagram.com"), ("Instagram", "SocialNetwork")),
    **dict.fromkeys(("whatsapp.com", "whatsapp.net"), ("WhatsApp", "Chat")),
    **dict.fromkeys(("youtube.com", "ytimg.com", "googlevideo.com", "youtu.be"), ("YouTube", "Media")),
    **dict.fromkeys(("google.com", "gstatic.com", "googleapis.com", "ggpht.com"), ("Google", "Web")),
    **dict.fromkeys(("gmail.com", "mail.google.com"), ("GMail", "Email")),
    **dict.fromkeys(("netflix.com", "nflxvideo.net", "nflximg.net", "nflxso.net"), ("NetFlix", "Video")),
    **dict.fromkeys(("twitter.com", "twimg.com", "t.co", "x.com"), ("Twitter", "SocialNetwork")),
    **dict.fromkeys(("apple.com", "mzstatic.com"), ("Apple", "Web")),
    **dict.fromkeys(("icloud.com",), ("AppleiCloud", "Web")),
    **dict.fromkeys(("microsoft.com", "msftconnecttest.com", "msedge.net"), ("Microsoft", "Cloud")),
    **dict.fromkeys(("amazonaws.com", "cloudfront.net"), ("AmazonAWS", "Cloud")),
    **dict.fromkeys(("amazon.com",), ("Amazon", "Web")),
    **dict.fromkeys(("dropbox.com", "dropboxstatic.com"), ("Dropbox", "Cloud")),
    **dict.fromkeys(("telegram.org", "t.me"), ("Telegram", "Chat")),
    **dict.fromkeys(("signal.org", "whispersystems.org"), ("Signal", "Chat")),
    **dict.fromkeys(("skype.com",), ("Skype_Teams", "VoIP")),
    **dict.fromkeys(("tiktok.com", "tiktokcdn.com"), ("TikTok", "SocialNetwork")),
    **dict.fromkeys(("spotify.com", "scdn.co"), ("Spotify", "Music")),
    **dict.fromkeys(("github.com", "githubusercontent.com"), ("Github", "Collaborative")),
    **dict.fromkeys(("wikipedia.org", "wikimedia.org"), ("Wikipedia", "Web")),
    **dict.fromkeys(("zoom.us",), ("Zoom", "Video")),
    **dict.fromkeys(("discord.com", "discord.gg", "discordapp.com"), ("Discord", "Collaborative")),
    **dict.fromkeys(("yahoo.com",), ("Yahoo", "Web")),
    **dict.fromkeys(("linkedin.com", "licdn.com"), ("LinkedIn", "SocialNetwork")),
    **dict.fromkeys(("kakao.com",), ("KakaoTalk", "Chat")),
    **dict.fromkeys(("qq.com",), ("QQ", "Chat")),
    **dict.fromkeys(("wechat.com", "weixin.qq.com"), ("WeChat", "Chat")),
    **dict.fromkeys(("snapchat.com", "sc-cdn.net"), ("Snapchat", "SocialNetwork")),
    **dict.fromkeys(("twitch.tv", "ttvnw.net"), ("Twitch", "Video")),
    **dict.fromkeys(("cloudflare.com",), ("Cloudflare", "Web")),
    **dict.fromkeys(("slack.com",), ("Slack", "Collaborative")),
    **dict.fromkeys(("viber.com",), ("Viber", "VoIP")),
    **dict.fromkeys(("reddit.com",), ("Reddit", "SocialNetwork")),
    **dict.fromkeys(("pinterest.com",), ("Pinterest", "SocialNetwork")),
}
"""Hosts, with all below them, of services; the longest that fits counts."""
