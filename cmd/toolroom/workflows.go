package main

import (
	"github.com/toolroom/toolroom/drivers/temporal"
	"github.com/toolroom/toolroom/internal/app"
)

// workflows runs workflows on Temporal. Package room does not link its client, because it
// is large.
func workflows(o app.WorkflowOptions) app.Workflows {
	return temporal.New(temporal.Options{
		Address: o.Address, Namespace: o.Namespace, Queue: o.Queue, Secret: o.SharedSecret,
		CA: o.CA, Cert: o.Cert, Key: o.Key, ServerName: o.ServerName, Log: o.Log,
	})
}
