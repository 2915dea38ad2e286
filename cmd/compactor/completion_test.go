package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"compactor/internal/store"
)

// A real bash, with the script that the program prints, completes a line.
func TestBashCompletesALine(t *testing.T) {
	t.Parallel()
	store.Register()
	config, _ := embedded(t, "sales.orders", "sales.items", `odd."a.b"`, "hr.people")
	bin := t.TempDir()
	writeText(t, filepath.Join(bin, "compactor"), "#!/bin/bash\n"+asProgram+"=1 exec "+os.Args[0]+" \"$@\"\n")
	require.NoError(t, os.Chmod(filepath.Join(bin, "compactor"), 0o700))
	with := " --config " + config + " "
	cases := []struct {
		line string
		want []string
	}{
		{"compactor comp", []string{"compact", "completion"}},
		{"compactor expire --max-d", []string{"--max-deletes", "--max-duration"}},
		{"compactor run --output ", []string{"text", "json"}},
		{"compactor run --output=j", []string{"json"}},
		{"compactor --claim-mode ba", []string{"bakery"}},
		{"compactor run" + with + "sales.", []string{"sales.items", "sales.orders"}},
		{"compactor run" + with + "sales.orders h", []string{"hr.people"}},
		{"compactor claim exec" + with + "hr", []string{"hr.people"}},
		{"compactor inspect" + with + "odd", []string{`odd.\"a.b\"`}},
		{"compactor inspect" + with + `odd.\"a`, []string{`odd.\"a.b\"`}},
		{"compactor run --config /nowhere sales.", []string{}},
		{"compactor claim exec" + with + "hr.people -- ca", []string{}},
		{"compactor run --max-deletes 3 --bogus --config " + config + " hr", []string{"hr.people"}},
		{"compactor run --catalog-uri http://" + nowhere + " --warehouse w sales.", []string{}},
	}
	args := []string{"--norc", "--noprofile", "-c", `source <(compactor completion bash); complete -p compactor >/dev/null || exit 9
		for COMP_LINE; do [[ $COMP_LINE != *catalog-uri* ]] || export ` + completionTimeName + `=1s # Nobody is there to wait for.
			COMP_POINT=${#COMP_LINE}; _compactor; echo "${COMPREPLY[@]}"; done`, "bash"}
	for _, c := range cases {
		args = append(args, c.line)
	}
	cmd := exec.Command("bash", args...)
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), completionTimeName+"=2m")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	got := strings.Split(string(out), "\n")
	require.Len(t, got, len(cases)+1, "%s", out)
	for i, c := range cases {
		require.ElementsMatch(t, c.want, strings.Fields(got[i]), c.line)
	}
}

func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	w := &world{t: t, env: map[string]string{}}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		r := w.compactor("completion", shell)
		require.Equal(t, 0, r.code, r.stderr)
		require.Contains(t, r.stdout, completeCommand)
		if path, err := exec.LookPath(shell); err == nil {
			cmd := exec.Command(path, "-n")
			cmd.Stdin = strings.NewReader(r.stdout)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s reads its script: %s", shell, out)
		}
	}
	for _, args := range []string{"completion", "completion tcsh", "completion bash zsh"} {
		r := w.compactor(strings.Fields(args)...)
		require.Equal(t, 2, r.code, args)
		require.Contains(t, r.stderr, "name one shell: bash, zsh or fish")
	}
}
