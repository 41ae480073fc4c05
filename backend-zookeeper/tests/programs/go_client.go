// Adds 1 to the number in a file, each time under a lock of go-zookeeper.
package main

import (
	"log"
	"os"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"
)

func try(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	server, path, file := os.Args[1], os.Args[2], os.Args[3]
	times, err := strconv.Atoi(os.Args[4])
	try(err)
	client, _, err := zk.Connect([]string{server}, 10*time.Second, zk.WithLogInfo(false))
	try(err)
	for range times {
		lock := zk.NewLock(client, path, zk.WorldACL(zk.PermAll))
		try(lock.Lock())
		text, err := os.ReadFile(file)
		try(err)
		before, err := strconv.Atoi(string(text))
		try(err)
		try(os.WriteFile(file, []byte(strconv.Itoa(before+1)), 0o600))
		try(lock.Unlock())
	}
	client.Close()
}
