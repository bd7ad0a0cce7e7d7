# fish completion for bothy: what follows, bothy completes itself.

function __bothy_complete
    set -l before (commandline -opc)
    set -l word (commandline -ct)
    set -l answer (command bothy __complete $before[2..-1] "$word" 2>/dev/null)
    set -l directive (string match -r -- '^:(\d+)$' $answer[-1])[2]
    or return
    set -e answer[-1]

    if test (count $answer) -eq 0
        if test $directive -eq 0
            __fish_complete_path "$word"
        end
        return
    end
    # The value of --flag=value is answered alone.
    set -l flag (string match -r -- '^--[^=]*=' "$word")
    for line in $answer
        echo -- "$flag$line"
    end
end

complete -c bothy -f -a '(__bothy_complete)'
