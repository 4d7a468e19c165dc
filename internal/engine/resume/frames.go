package resume

import (
	"errors"
	"fmt"
	"slices"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/cow"
)

// Load puts memory into the state of a session, using load. If that fails, it
// returns the body of the run's last frame, else nil.
func Load(engine string, image func() string, state []byte, load func([]byte) error) bridge.Map {
	if len(state) == 0 {
		return nil
	}
	refused := func(message string) bridge.Map {
		return bridge.Map{{Key: "kind", Value: string(bridge.FailUnsupported)}, {Key: "type", Value: "Unsupported"}, {Key: "message", Value: message}}
	}
	s, err := Decode(engine, state)
	if err != nil {
		return refused(err.Error())
	}
	if image := image(); s.Image != image {
		return refused(fmt.Sprintf("the session was kept by another version of the %s engine (image %.12s, this one is %.12s), whose variables cannot be read: delete the session and build it anew, or run that version of Toolroom", engine, s.Image, image))
	}
	if err := load(s.Memory); err != nil {
		return refused(fmt.Sprintf("the session cannot be loaded: %v", err))
	}
	return nil
}

// Finish adds the state of a session to a run's last frame, and sends it. If the
// state cannot be kept, it sends a frame that says why instead.
func Finish(last bridge.Frame, image string, save func() ([]byte, error), send func(bridge.Frame) error) error {
	names := Names(last.Body.Get(variables))
	last.Body = slices.DeleteFunc(last.Body, func(m bridge.Member) bool { return m.Key == variables })
	change, err := save()
	var state []byte
	if err == nil {
		state, err = State{Image: image, Variables: names, Memory: change}.Encode()
	}
	if err == nil {
		last.Body = append(last.Body, bridge.Member{Key: "state", Value: state})
		err = send(last)
	}
	if err == nil {
		return nil
	}
	return send(bridge.Frame{Kind: bridge.Failed, Token: last.Token, Body: notKept(err)})
}

// notKept returns the body of the last frame of a run whose state cannot be kept.
func notKept(err error) bridge.Map {
	kind := bridge.FailProgram
	var memory *cow.TooLargeError
	var packed TooLargeError
	var frame *bridge.TooLargeError
	if errors.As(err, &memory) || errors.As(err, &packed) || errors.As(err, &frame) {
		kind = bridge.FailLimit
	}
	return bridge.Map{{Key: "kind", Value: string(kind)}, {Key: "limit", Value: "session"}, {Key: "message", Value: fmt.Sprintf("the session could not be kept: %v", err)}}
}
