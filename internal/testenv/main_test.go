package testenv

import (
	"fmt"
	"io"
	"os"
	"testing"
)

// childVariable turns the test binary into a program that starts servers, prints their process ids and waits to be killed.
const childVariable = "TESTENV_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		runChild()
		return
	}
	Main(m)
}

// runChild starts one server of each kind and waits for the end of its input, which does not come before its death.
func runChild() {
	postgres, err := startPostgres(PostgresOptions{})
	if err != nil {
		fmt.Println("error:", err) //nolint:forbidigo // Read by the parent.
		return
	}
	lake, err := startLake()
	if err != nil {
		fmt.Println("error:", err) //nolint:forbidigo // Read by the parent.
		return
	}
	fmt.Println(postgres.Pid(), lake.Pid(), postgres.Port, postgres.dir, lake.server.dir) //nolint:forbidigo // Read by the parent.
	_, _ = io.Copy(io.Discard, os.Stdin)
}
