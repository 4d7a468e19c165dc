package main

import (
	"encoding/hex"
	"os"

	"github.com/toolroom/toolroom/bridge"
)

// join sends hello, and returns the stream and the token of this run.
func join() (*bridge.Wire, []byte, error) {
	w := bridge.NewWire(os.NewFile(bridge.Descriptor, "bridge"))
	if err := w.Write(bridge.Frame{Kind: bridge.Hello, Body: bridge.Map{{Key: "versions", Value: []bridge.Value{int64(1)}}}}); err != nil {
		return nil, nil, err
	}
	start, _, err := w.Read()
	return w, start.Token, err
}

var last = bridge.Map{{Key: "tool", Value: "echo:value"}, {Key: "arguments", Value: bridge.Map{{Key: "value", Value: int64(1)}}}}

func end(w *bridge.Wire, token []byte, value bridge.Value) error {
	return w.Write(bridge.Frame{Kind: bridge.Done, Token: token, Body: bridge.Map{{Key: "value", Value: value}}})
}

// steal returns its own token.
func steal([]string) error {
	w, token, err := join()
	if err != nil {
		return err
	}
	return end(w, token, hex.EncodeToString(token))
}

// use makes a call with the token of another run.
func use(args []string) error {
	w, token, err := join()
	if err != nil {
		return err
	}
	stolen, err := hex.DecodeString(args[0])
	if err != nil {
		return err
	}
	if err := w.Write(bridge.Frame{Kind: bridge.Call, ID: 99, Token: stolen, Body: last}); err != nil {
		return err
	}
	return end(w, token, "on")
}

// late makes a call after its end.
func late([]string) error {
	w, token, err := join()
	if err != nil {
		return err
	}
	if err := end(w, token, int64(1)); err != nil {
		return err
	}
	if err := w.Write(bridge.Frame{Kind: bridge.Call, ID: 99, Token: token, Body: last}); err != nil {
		return err
	}
	spin()
	return nil
}
