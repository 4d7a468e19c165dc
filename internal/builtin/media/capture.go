package media

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/source"
)

// Picture is the value of screen:capture and camera:capture.
type Picture struct {
	Handle   string `json:"handle" jsonschema:"the artifact that holds the picture"`
	MIMEType string `json:"mime_type" jsonschema:"its type"`
	Bytes    int    `json:"bytes" jsonschema:"its size"`
	Program  string `json:"program" jsonschema:"the program that took it"`
}

// captureProgram is a program that takes a picture. It writes the picture to standard output,
// or to the argument FILE.
type captureProgram struct {
	program string
	args    []string
	// needs is an environment variable that must be set, if any.
	needs string
}

// screenPrograms returns the programs that take a picture of the screen, best first.
func screenPrograms() []captureProgram {
	if runtime.GOOS == "darwin" {
		return []captureProgram{{"screencapture", []string{"-x", "-t", "png", "FILE"}, ""}}
	}
	return []captureProgram{
		{"grim", []string{"-"}, "WAYLAND_DISPLAY"},
		{"maim", nil, "DISPLAY"},
		{"import", []string{"-silent", "-window", "root", "png:-"}, "DISPLAY"},
		{"scrot", []string{"--silent", "--overwrite", "FILE"}, "DISPLAY"},
		{"gnome-screenshot", []string{"-f", "FILE"}, "DISPLAY"},
	}
}

// cameraPrograms returns the programs that take a picture with the camera DEVICE, best first.
func cameraPrograms() []captureProgram {
	if runtime.GOOS == "darwin" {
		return []captureProgram{{"imagesnap", []string{"-q", "-w", "1", "FILE"}, ""}}
	}
	return []captureProgram{
		{"ffmpeg", []string{"-nostdin", "-loglevel", "error", "-f", "v4l2", "-i", "DEVICE", "-frames:v", "1", "-f", "image2pipe", "-c:v", "png", "-"}, ""},
		{"fswebcam", []string{"-q", "-d", "DEVICE", "--png", "9", "--no-banner", "-"}, ""},
	}
}

// ScreenArgs are the arguments of screen:capture.
type ScreenArgs struct{}

func (m *media) screen() builtin.Tool {
	tool := definition("screen:capture", "Take a picture of the screen", "Take a screenshot of this machine's desktop: a picture of what is on the screen now.",
		builtin.Hints(true, false, false), map[string]any{})
	tool.Sensitive = nil
	return builtin.MustTool(builtin.Spec[ScreenArgs, Picture]{
		Tool:    tool,
		Predict: func(*source.Request, ScreenArgs) []toolroom.Effect { return m.captureEffects(screenPrograms(), "") },
		Run: func(ctx context.Context, req *source.Request, _ ScreenArgs) (Picture, []toolroom.Content, error) {
			return m.capture(ctx, req, screenPrograms(), "", "screen.png")
		},
	})
}

// CameraArgs are the arguments of camera:capture.
type CameraArgs struct {
	Device string `json:"device,omitempty" jsonschema:"camera, such as video0; the default is the first"`
}

func (m *media) camera() builtin.Tool {
	tool := definition("camera:capture", "Take a picture by a camera", "Take a photo with this machine's camera or webcam.", builtin.Hints(true, false, false), map[string]any{})
	tool.Sensitive = nil
	return builtin.MustTool(builtin.Spec[CameraArgs, Picture]{
		Tool:      tool,
		Arguments: map[string]builtin.Property{"device": {"pattern": "^video[0-9]{1,3}$"}},
		Predict: func(_ *source.Request, in CameraArgs) []toolroom.Effect {
			device, err := m.device(in.Device)
			if err != nil {
				return nil
			}
			return m.captureEffects(cameraPrograms(), device)
		},
		Run: func(ctx context.Context, req *source.Request, in CameraArgs) (Picture, []toolroom.Content, error) {
			device, err := m.device(in.Device)
			if err != nil {
				return Picture{}, nil, err
			}
			return m.capture(ctx, req, cameraPrograms(), device, "camera.png")
		},
	})
}

// device returns the path of a camera.
func (m *media) device(name string) (string, error) {
	if runtime.GOOS == "darwin" {
		return "", nil
	}
	if name != "" {
		path := filepath.Join(m.Devices, name)
		if _, err := os.Stat(path); err != nil {
			return "", toolroom.Errorf(toolroom.CodeNotFound, "there is no camera %s on this machine", name)
		}
		return path, nil
	}
	found, err := filepath.Glob(filepath.Join(m.Devices, "video[0-9]*"))
	if err != nil || len(found) == 0 {
		return "", toolroom.Errorf(toolroom.CodeUnsupported, "this machine has no camera (%s)", filepath.Join(m.Devices, "video*"))
	}
	return found[0], nil
}

// captureEffects returns the predicted effect of taking a picture.
func (m *media) captureEffects(ways []captureProgram, device string) []toolroom.Effect {
	_, cmd, err := m.find(ways, device, "FILE")
	if err != nil {
		return nil
	}
	return []toolroom.Effect{{Kind: toolroom.EffectCommand, Target: strings.Join(cmd, " ")}}
}

// find returns the first of the programs that works on this machine, and its command line.
func (m *media) find(ways []captureProgram, device, file string) (captureProgram, []string, error) {
	var programs []string
	display := false
	for _, way := range ways {
		programs = append(programs, way.program)
		if way.needs != "" && m.getenv(way.needs) == "" {
			continue
		}
		display = true
		path := m.lookPath(way.program)
		if path == "" {
			continue
		}
		cmd := []string{path}
		for _, arg := range way.args {
			cmd = append(cmd, strings.NewReplacer("FILE", file, "DEVICE", device).Replace(arg))
		}
		return way, cmd, nil
	}
	if !display {
		return captureProgram{}, nil, toolroom.Errorf(toolroom.CodeUnsupported, "Toolroom runs without a display, so that there is no screen").
			WithHint("start it in a desktop session, with DISPLAY or WAYLAND_DISPLAY set")
	}
	return captureProgram{}, nil, toolroom.Errorf(toolroom.CodeUnsupported, "no program that takes pictures is installed").WithHint("install one of %s", strings.Join(programs, ", "))
}

func (m *media) getenv(name string) string {
	for _, entry := range m.Environ {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// lookPath returns the path of a program in the PATH of the configured environment.
func (m *media) lookPath(program string) string {
	for _, dir := range filepath.SplitList(m.getenv("PATH")) {
		path := filepath.Join(dir, program)
		if info, err := os.Stat(path); filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

const captureTime = 20 * time.Second

// capture takes a picture and stores it as an artifact.
func (m *media) capture(ctx context.Context, req *source.Request, ways []captureProgram, device, name string) (Picture, []toolroom.Content, error) {
	dir, err := os.MkdirTemp("", "toolroom-picture-")
	if err != nil {
		return Picture{}, nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, name)
	way, command, err := m.find(ways, device, file)
	if err != nil {
		return Picture{}, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, captureTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = m.Environ, dir, time.Second
	var output, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &limitedWriter{to: &output, left: m.MaxBytes + 1}, &limitedWriter{to: &problems, left: 4096}
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return Picture{}, nil, context.Cause(ctx)
		}
		return Picture{}, nil, toolroom.Errorf(toolroom.CodeExecutionFailed, "%s failed: %w: %s", way.program, err, strings.TrimSpace(problems.String()))
	}
	b := &blob{name: name, data: output.Bytes()}
	if len(b.data) == 0 {
		if b.data, err = os.ReadFile(file); err != nil {
			return Picture{}, nil, toolroom.Errorf(toolroom.CodeExecutionFailed, "%s took no picture: %s", way.program, strings.TrimSpace(problems.String()))
		}
	}
	if b.kind = kindOf(b.data, "", ""); int64(len(b.data)) > m.MaxBytes || !strings.HasPrefix(b.kind, "image/") {
		return Picture{}, nil, toolroom.Errorf(toolroom.CodeExecutionFailed, "%s gave no picture of at most %d bytes", way.program, m.MaxBytes)
	}
	out := Picture{MIMEType: b.kind, Bytes: len(b.data), Program: way.program}
	if out.Handle, err = m.keep(ctx, req, name, b); err != nil {
		return Picture{}, nil, err
	}
	return out, append(builtin.Text(fmt.Sprintf("%s, %d bytes, artifact %s", b.kind, len(b.data), out.Handle)), b.content(name)), nil
}

// limitedWriter keeps the first bytes and drops the rest.
type limitedWriter struct {
	to   *bytes.Buffer
	left int64
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	n := min(int64(len(p)), l.left)
	l.to.Write(p[:n])
	l.left -= n
	return len(p), nil
}
