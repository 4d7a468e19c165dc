package session

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/atomicfile"
)

// A session is one file, so that its description always belongs to its state. The file
// has a line of JSON, and then the state. An export is the same file.
const (
	format    = "toolroom-session-1"
	extension = ".session"
	// maxHeader is the maximum length of the first line: a set of labels has at most 256.
	maxHeader = 128 << 10
	// maxState is the maximum size of a state, in bytes.
	maxState = 64 << 20
)

type fileHeader struct {
	Format string `json:"format"`
	Info
}

func encode(info Info, state []byte) ([]byte, error) {
	line, err := json.Marshal(fileHeader{format, info})
	if err != nil {
		return nil, fmt.Errorf("describe session %s: %w", info.ID, err)
	}
	return append(append(line, '\n'), state...), nil
}

// decode decodes a file. If withState is false, it reads only the first line.
func decode(r io.Reader, withState bool) (Info, []byte, error) {
	in := bufio.NewReaderSize(r, maxHeader)
	line, err := in.ReadSlice('\n')
	var h fileHeader
	if err != nil || json.Unmarshal(line, &h) != nil || h.Format != format {
		return Info{}, nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the file is not a session exported by this version of Toolroom").
			WithCLIHint("export a session: toolroom session export ID FILE")
	}
	if !withState {
		return h.Info, nil, nil
	}
	var state bytes.Buffer
	if _, err := state.ReadFrom(io.LimitReader(in, maxState+1)); err != nil {
		return Info{}, nil, fmt.Errorf("read the state of a session: %w", err)
	}
	if state.Len() > maxState {
		return Info{}, nil, errFull("the state is larger than %d MiB", maxState>>20)
	}
	if h.Bytes != int64(state.Len()) {
		return Info{}, nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the session is truncated: it has %d bytes of state, want %d", state.Len(), h.Bytes)
	}
	return h.Info, state.Bytes(), nil
}

// read reads a session's file. If the file is missing, the error is fs.ErrNotExist.
func read(path string, withState bool) (Info, []byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return Info{}, nil, err
	}
	defer f.Close()
	info, state, err := decode(f, withState)
	if err != nil {
		return Info{}, nil, fmt.Errorf("read %s: %w", path, err)
	}
	return info, state, nil
}

func write(path string, info Info, state []byte) error {
	data, err := encode(info, state)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(path, data, 0o600); err != nil {
		return fmt.Errorf("keep session %s: %w", info.ID, err)
	}
	return nil
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete a session: %w", err)
	}
	return nil
}
