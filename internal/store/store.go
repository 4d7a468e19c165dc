// Package store names what Toolroom keeps. Implementations are packages named
// for their engine; package storetest holds the suite that each must pass.
package store

import (
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/code/journal"
	"github.com/toolroom/toolroom/internal/pin"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/spending"
	"github.com/toolroom/toolroom/internal/taint"
	"github.com/toolroom/toolroom/internal/token"
)

// Store is everything that is kept. Each part belongs to the package that uses
// it; they share an engine so that one file, or one server, is the whole state.
type Store interface {
	receipt.Store
	approval.Store
	run.KeyStore
	run.QuestionStore
	token.Store
	artifact.Index
	policy.Elevations
	pin.Store
	taint.Store
	journal.Store
	spending.Store

	// Close ends the use of the store. Closing again does nothing.
	Close() error
}
