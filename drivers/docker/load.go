package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/moby/moby/client"
)

// LoadImage loads the images of an archive, as written by docker save, into the engine.
func (d *Driver) LoadImage(ctx context.Context, archive io.Reader) error {
	e, err := d.connect(ctx)
	if err != nil {
		return d.unreachable(ctx, err)
	}
	result, err := e.ImageLoad(ctx, io.MultiReader(archive), // wrapped, so that the client cannot close it
		client.ImageLoadWithQuiet(true))
	if err != nil {
		return fmt.Errorf("docker: load the image: %w", err)
	}
	defer result.Close()
	// The engine answers 200 and reports failures in the stream.
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
