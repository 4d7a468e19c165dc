package app

import (
	"github.com/toolroom/toolroom/drivers/microvm"
	"github.com/toolroom/toolroom/sandbox"
)

// machines returns the drivers that run programs in virtual machines, from the image in the
// room's folder.
func (r *App) machines() []sandbox.Driver {
	g := r.o.Guest
	if g.Path == "" {
		return nil
	}
	o := microvm.Options{Folder: microvm.Folder(r.home), Guest: g.Path, GuestArgs: g.Args}
	return []sandbox.Driver{microvm.NewQEMU(o), microvm.NewFirecracker(o)}
}
