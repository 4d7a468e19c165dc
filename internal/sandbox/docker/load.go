package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/moby/moby/client"
)

// LoadImage puts the images of an archive, as docker save writes it, into the
// engine.
func (d *Driver) LoadImage(ctx context.Context, archive io.Reader) error {
	e, err := d.connect(ctx)
	if err != nil {
		return d.unreachable(ctx, err)
	}
	result, err := e.ImageLoad(ctx, io.MultiReader(archive), // which it cannot close
		client.ImageLoadWithQuiet(true))
	if err != nil {
		return fmt.Errorf("docker: load the image: %w", err)
	}
	defer result.Close()
	// The engine answers 200 and tells of a failure in the stream.
	for stream := json.NewDecoder(result); ; {
		var message struct{ Error string }
		if err := stream.Decode(&message); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("docker: load the image: %w", err)
		}
		if message.Error != "" {
			return fmt.Errorf("docker: load the image: %s", message.Error)
		}
	}
}
