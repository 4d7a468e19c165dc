package remote

import (
	"net"
	"time"
)

// Silence is the default time without packets after which a connection ends.
const Silence = 30 * time.Second

// newDialer returns a dialer whose connections end after about silence.
func newDialer(silence time.Duration) *net.Dialer {
	return &net.Dialer{KeepAliveConfig: keepAlive(silence), Control: socketControl(silence)}
}

// Listen returns a listener whose connections end after about silence.
func Listen(silence time.Duration) *net.ListenConfig {
	return &net.ListenConfig{KeepAliveConfig: keepAlive(silence), Control: socketControl(silence)}
}

// keepAlive configures probes on idle connections.
func keepAlive(silence time.Duration) net.KeepAliveConfig {
	step := max(silence/4, time.Second)
	return net.KeepAliveConfig{Enable: true, Idle: step, Interval: step, Count: 3}
}
