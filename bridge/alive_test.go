package bridge_test

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolroom/toolroom/bridge"
)

func TestAGuestThatAsksIsToldThatTheServerLives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		accepted := make(chan *bridge.Conn, 1)
		go func() {
			c, err := bridge.Accept(t.Context(), here, bridge.Options{})
			if err != nil {
				t.Error(err)
			}
			accepted <- c
		}()
		wire := bridge.NewWire(there)
		hello := bridge.Map{{Key: "versions", Value: []bridge.Value{int64(bridge.Version)}}, {Key: "alive", Value: true}}
		if err := wire.Write(bridge.Frame{Kind: bridge.Hello, Body: hello}); err != nil {
			t.Fatal(err)
		}
		c, began := <-accepted, time.Now()
		for range 3 { // while no program runs
			if f, _, err := wire.Read(); err != nil || f.Kind != bridge.Alive {
				t.Fatalf("%v, %v", f, err)
			}
		}
		if took := time.Since(began); took != 3*bridge.AlivePeriod {
			t.Errorf("three signs took %v", took)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}
