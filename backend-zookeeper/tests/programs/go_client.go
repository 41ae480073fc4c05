// Acquires a lock of go-zookeeper at a line of input, releases it at the next one, and so on.
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/go-zookeeper/zk"
)

func try(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	server, path, lines := os.Args[1], os.Args[2], bufio.NewScanner(os.Stdin)
	client, _, err := zk.Connect([]string{server}, 40*time.Second, zk.WithLogInfo(false))
	try(err)
	lock := zk.NewLock(client, path, zk.WorldACL(zk.PermAll))
	for lines.Scan() {
		try(lock.Lock())
		fmt.Println("held")
		lines.Scan()
		try(lock.Unlock())
		fmt.Println("released")
	}
}
