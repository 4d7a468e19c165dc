// Package lifeline makes TCP connections that end soon after the other side, or
// the network between, has gone without a word.
package lifeline

import (
	"net"
	"time"
)

// Silence is how long the network may carry nothing, as a rule.
const Silence = 30 * time.Second

// Dialer makes connections that end after about silence.
func Dialer(silence time.Duration) *net.Dialer {
	return &net.Dialer{KeepAliveConfig: keepAlive(silence), Control: control(silence)}
}

// Listen takes connections that end after about silence.
func Listen(silence time.Duration) *net.ListenConfig {
	return &net.ListenConfig{KeepAliveConfig: keepAlive(silence), Control: control(silence)}
}

// keepAlive asks an idle connection whether the other side is there.
func keepAlive(silence time.Duration) net.KeepAliveConfig {
	step := max(silence/4, time.Second)
	return net.KeepAliveConfig{Enable: true, Idle: step, Interval: step, Count: 3}
}
