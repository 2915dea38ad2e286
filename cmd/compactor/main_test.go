package main

import (
	"flag"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/urfave/cli/v2"

	"compactor/internal/testenv"
)

// asProgram makes the test binary behave as the program, so that tests can
// start, signal and kill real processes without another build.
const asProgram = "COMPACTOR_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	cli.HelpFlag = helpFlag{cli.HelpFlag.(*cli.BoolFlag)}
	handleIgnored()
	testenv.Main(m)
}

// handleIgnored handles the signals that whoever runs the tests has ignored, as
// nohup and shells do for what goes on behind them. The programs under test would
// inherit that, and ignore them too; where a signal is handled, children begin with
// the default.
func handleIgnored() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// helpFlag is the library's help flag for tests that run the program several
// times at once in one process: parsing writes to a copy of it.
type helpFlag struct{ *cli.BoolFlag }

func (h helpFlag) Apply(set *flag.FlagSet) error {
	parsed := *h.BoolFlag

	return parsed.Apply(set)
}
