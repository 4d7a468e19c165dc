//go:build linux && (amd64 || arm64)

package escape

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

func networks(o Outside) map[string]func() error {
	dial := func(network, address string) func() error {
		return func() error {
			c, err := net.DialTimeout(network, address, 2*time.Second)
			if err != nil {
				return err
			}
			defer c.Close()
			// A UDP "connection" succeeds without a peer, so it counts once a packet is sent.
			_, err = c.Write([]byte{0})
			return err
		}
	}
	socket := func(family, kind, protocol int) func() error {
		return func() error { _, err := unix.Socket(family, kind, protocol); return err }
	}
	return map[string]func() error{
		"connect to the host machine":     dial("tcp", o.TCP),
		"connect over IPv6":               dial("tcp", "[::1]:80"),
		"connect to the metadata address": dial("tcp", "169.254.169.254:80"),
		"send a DNS question":             dial("udp", "8.8.8.8:53"),
		"look a name up":                  func() error { _, err := net.LookupHost("example.com"); return err },
		"listen": func() error {
			l, err := net.Listen("tcp", "0.0.0.0:0")
			if err == nil {
				l.Close() // otherwise another attempt finds the open socket
			}
			return err
		},
		"connect to an abstract socket":           dial("unix", o.Abstract),
		"connect to a socket of the host machine": dial("unix", o.Socket),
		"connect to Docker":                       dial("unix", "/var/run/docker.sock"),
		"connect to Docker in /run":               dial("unix", "/run/docker.sock"),
		"connect to the system bus":               dial("unix", "/run/dbus/system_bus_socket"),
		"make a raw socket":                       socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
		"make a packet socket":                    socket(unix.AF_PACKET, unix.SOCK_DGRAM, 0),
		"make a netlink socket":                   socket(unix.AF_NETLINK, unix.SOCK_DGRAM, unix.NETLINK_ROUTE),
		"make a VM socket":                        socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0),
		"make a crypto socket":                    socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
		"make a Bluetooth socket":                 socket(unix.AF_BLUETOOTH, unix.SOCK_RAW, 0),
		"make a raw Unix socket":                  socket(unix.AF_UNIX, unix.SOCK_RAW, 0),
		"make an internet socket, high bits": func() error {
			return try(unix.SYS_SOCKET, unix.AF_PACKET|1<<32, unix.SOCK_RAW, 0)()
		},
	}
}
