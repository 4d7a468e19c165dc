package guest

import "embed"

//go:embed python/*.py
var pythonFiles embed.FS

// PythonFiles are the guest for Python: file names and texts, of which guest.py
// runs a program.
func PythonFiles() map[string]string {
	files := map[string]string{}
	entries, _ := pythonFiles.ReadDir("python") // a folder that is built in
	for _, e := range entries {
		text, _ := pythonFiles.ReadFile("python/" + e.Name())
		files[e.Name()] = string(text)
	}
	return files
}
