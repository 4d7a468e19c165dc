package quickjs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// Image names the image that isolates begin from. Machines with the same name
// can load one another's states: the engine starts the same way everywhere.
func (m *Machine) Image() string { return m.name() }

func (m *Machine) nameImage() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %+v\n", Version, m.layout)
	h.Write(m.image.Bytes())
	return hex.EncodeToString(h.Sum(nil))
}

// collecting is how long it may take to collect the garbage of a run.
const collecting = 10 * time.Second

// Save gives all that the run has left behind, for [Isolate.Load] to go on
// from: the memory where it differs from the image. It is called after a run
// that has finished. A state is as trustworthy as the program that made it.
func (i *Isolate) Save(ctx context.Context) ([]byte, error) {
	if i.bad {
		return nil, errors.New("the engine did not end the run cleanly")
	}
	// The run is over, and so is its time: collecting has its own.
	i.run = &run{ctx: ctx, port: i.run.port, deadline: time.Now().Add(collecting)}
	i.fuel.Set(fuel)
	if _, err := i.collect.do(i.context(ctx)); err != nil {
		i.bad = true
		if end, err := i.classify(err); end == Crashed {
			return nil, fmt.Errorf("collect garbage: %w", err)
		}
		return nil, fmt.Errorf("what it has given up could not be collected within %s", collecting)
	}
	memory := i.module.Memory()
	content, _ := memory.Read(0, memory.Size())
	return i.machine.packer.Pack(content, i.machine.image.Bytes())
}

// Load makes a fresh isolate what another was when it was saved. It fails with
// cow.ErrDelta for bytes that are no state.
func (i *Isolate) Load(state []byte) error {
	err := i.machine.packer.Unpack(state, i.module.Memory())
	i.bad = i.bad || err != nil
	return err
}
